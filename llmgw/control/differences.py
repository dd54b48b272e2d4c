"""What a heartbeat tells of ports and driver errors that was not known before. Pure.

Ports count how often their link went down themselves (`link_downed`); where one has no such
counter, or one that stands at the most that it can hold, a port that was active and no longer is
counts as one time.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice

from llmgw.model.device import Xid
from llmgw.model.fabric import Port, PortCounter
from llmgw.model.hardware import MASTER, PORT, XID
from llmgw.model.node import Heartbeat

LINK_DOWNED = "link_downed"

MOST_SUBJECTS = 1024
"""Of one node; those that it names beyond that are not followed. Machines have some tens."""
AT_ONCE = 128
"""Changes that are taken of one heartbeat; the next one tells of the others again."""
_MOST = (1 << 63) - 1
"""Of a total: what a store can keep."""

_ACTIVE = "active"
_TO_DO = {
    "reset": "reset the device",
    "reboot": "reboot the machine",
    "replace": "replace the card",
    "restart_application": "restart the engine",
}

Key = tuple[str, str]
"""Kind and subject; see `model.hardware.HardwareChange`."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a subject."""

    value: str | None = None
    """The master's GUID or the port's state."""
    reading: int | None = None
    total: int = 0


_NO_ERROR = Seen(reading=0)


@dataclass(frozen=True, slots=True)
class Difference:
    """A subject that is not as it was."""

    key: Key
    before: Seen
    after: Seen
    words: Callable[[str | None, int], str]
    """Makes the sentence of the first value and of how many times it happened."""
    action: str | None = None
    """What a driver error asks for."""
    happened: float | None = None
    """When a driver error last happened, by the machine's own clock; None: it does not say."""

    @property
    def times(self) -> int:
        """Return how often it happened."""
        return self.after.total - self.before.total


def differences(
    known: Mapping[Key, Seen], heartbeat: Heartbeat, name_of: Callable[[str], str]
) -> tuple[tuple[Difference, ...], dict[Key, Seen]]:
    """Return what changed, and what is known now of every subject that is not as it was.

    A master and a port that are seen for the first time have not changed; the errors of a device
    have, unless there were none. What the heartbeat does not say stays as it is known.
    Of a node that names ever new subjects, further ones are passed over.

    Args:
        known: of the node's subjects.
        heartbeat: its newest.
        name_of: what people call a device, by its UUID.
    """
    found: list[Difference] = []
    now: dict[Key, Seen] = {}
    changed = chain(_ports(known, heartbeat), _errors(known, heartbeat, name_of))
    for one in islice(changed, AT_ONCE):
        now[one.key] = one.after
        if one.before.value != one.after.value or one.times > 0:
            found.append(one)
    now |= _over(known, heartbeat)
    return tuple(found), now


# Each of these is asked with every heartbeat: what is as it was is passed over first.


def _ports(known: Mapping[Key, Seen], heartbeat: Heartbeat) -> Iterator[Difference]:
    full = is_full(known)
    for port in heartbeat.ports or ():
        subject = f"{port.adapter}/{port.number}"
        if full and (PORT, subject) not in known:
            continue
        key, before = (MASTER, subject), known.get((MASTER, subject))
        # A port that can't be read says nothing of its master either.
        says = port.master_guid is not None or port.state is not None
        if says and port.master_guid != (None if before is None else before.value):
            after = Seen(value=port.master_guid)
            yield Difference(key, before or after, after, _master_words(subject, after))
        if port.state is None:
            continue
        key, before, counter = (PORT, subject), known.get((PORT, subject)), _downed(port)
        reading = None if counter is None else counter.value
        if before is None or (before.value, before.reading) != (port.state, reading):
            after = _port(before, port.state, counter)
            yield Difference(key, before or after, after, _port_words(subject, after))


def _downed(port: Port) -> PortCounter | None:
    for counter in port.counters or ():
        if counter.name == LINK_DOWNED:
            return counter
    return None


def _port(before: Seen | None, state: str, counter: PortCounter | None) -> Seen:
    reading = None if counter is None else counter.value
    if before is None:
        return Seen(value=state, reading=reading)
    fell = int(is_active(before.value) and not is_active(state))
    if counter is None:
        return replace(before, value=state, total=before.total + fell)
    more = 0 if before.reading is None else _more(before.reading, counter.value)
    if counter.at_ceiling:
        more = max(more, fell)  # it counts no further
    return Seen(value=state, reading=reading, total=min(_MOST, before.total + more))


def _errors(
    known: Mapping[Key, Seen], heartbeat: Heartbeat, name_of: Callable[[str], str]
) -> Iterator[Difference]:
    full = is_full(known)
    for health in heartbeat.health or ():
        for xid in health.xids or ():
            key = (XID, f"{health.uuid}/{xid.code}")
            if full and key not in known:
                continue
            before = known.get(key, _NO_ERROR)
            if before.reading != xid.count:
                more = _more(before.reading or 0, xid.count)
                after = Seen(reading=xid.count, total=min(_MOST, before.total + more))
                words = _error_words(name_of(health.uuid), xid)
                yield Difference(key, before, after, words, xid.action, xid.last_seen)


def _over(known: Mapping[Key, Seen], heartbeat: Heartbeat) -> dict[Key, Seen]:
    """Return the errors that a device no longer tells of: its machine was started anew."""
    told = {
        one.uuid: {str(xid.code) for xid in one.xids}
        for one in heartbeat.health or ()
        if one.xids is not None
    }
    over = {}
    for key, seen in known.items():
        if key[0] == XID and seen.reading:
            uuid, _, code = key[1].rpartition("/")
            if uuid in told and code not in told[uuid]:
                over[key] = replace(seen, reading=0)
    return over


def _more(before: int, now: int) -> int:
    """Return by how much a counter rose; one that fell has begun anew."""
    return now - before if now >= before else max(0, now)


def is_full(known: Mapping[Key, Seen]) -> bool:
    """Say whether no further subject of a node is followed."""
    return len(known) >= MOST_SUBJECTS


def is_active(state: str | None) -> bool:
    """Say whether a port in a state carries traffic."""
    return state is not None and _ACTIVE in state.lower()


def _master_words(subject: str, after: Seen) -> Callable[[str | None, int], str]:
    def words(before: str | None, _: int) -> str:
        what = f"port {subject}: master subnet manager"
        if before == after.value:
            return f"{what} {after.value or '-'} again, after it was another or none"
        return f"{what} {before or '-'} → {after.value or '-'}"

    return words


def _port_words(subject: str, after: Seen) -> Callable[[str | None, int], str]:
    def words(before: str | None, times: int) -> str:
        if before == after.value:
            return f"port {subject}: its link went down {_times(times)} and is {after.value} again"
        more = f", its link went down {_times(times)}" if times > 1 else ""
        return f"port {subject}: {before or '-'} → {after.value}{more}"

    return words


def _error_words(name: str, xid: Xid) -> Callable[[str | None, int], str]:
    what = f"XID {xid.code}" + (f" ({xid.words})" if xid.words else "")
    todo = "" if xid.cleared or xid.action not in _TO_DO else f": {_TO_DO[xid.action]}"
    return lambda _, times: f"{name}: {what} {_times(times)}{todo}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
