"""What happened to ports and devices: the last of each in memory, all of it in the store (TEL-13).

The store keeps a day, so that a new leader lists what an earlier one saw, and of each subject the
last change however old, so that totals go on and nothing is told twice.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.units import show_seconds
from llmgw.control.behind import Behind
from llmgw.control.differences import (
    MOST_SUBJECTS,
    Difference,
    Key,
    Seen,
    differences,
    is_active,
    is_full,
)
from llmgw.control.events import Events
from llmgw.control.writing import HARDWARE, Writing
from llmgw.model.events import INFO, PROBLEM, WARNING
from llmgw.model.hardware import MASTER, PORT, HardwareChange
from llmgw.model.node import Heartbeat
from llmgw.store.interface import Store

DAY = 86_400.0
GOES_ON = 60.0
"""Seconds within which a change that happens again is the same one that goes on."""

_ASKS = frozenset({"reset", "reboot", "replace"})


class Hardware:
    """Changes of ports and driver errors of devices, by node. Told by heartbeats; never waits.

    Args:
        store: where changes go, a little behind.
        clock: the time.
        events: told of what people should know and hear of nowhere else.
        writing: told whether changes reach the store.
    """

    def __init__(self, store: Store, clock: Clock, events: Events, writing: Writing) -> None:
        self._store = store
        self._clock = clock
        self._events = events
        self._known: dict[str, dict[Key, Seen]] = {}
        self._last: dict[tuple[str, Key], HardwareChange] = {}
        """The change of each subject that may go on."""
        self._fallen: dict[str, dict[str, tuple[float, str]]] = {}
        """By node and port, when a link that was active went down, and what it is now."""
        self._number = 0
        self._behind: Behind[HardwareChange] = Behind(HARDWARE, self._put, clock, writing)
        self.write = self._behind.write
        self.write_forever = self._behind.write_forever

    async def load(self) -> None:
        """Read what earlier leaders knew last of each subject, and know nothing else."""
        self._behind.drop()
        self._known.clear()
        self._last.clear()
        self._fallen.clear()
        for change in await self._store.hardware_last():
            known = self._known.setdefault(change.node, {})
            known[change.kind, change.subject] = Seen(
                value=change.after, reading=change.reading, total=change.total
            )
            if change.kind == PORT:
                self._note_port(change.node, change.subject, change.before, change.after, change.at)
            if change.id.isdecimal():
                self._number = max(self._number, int(change.id))

    def heard(self, node: str, heartbeat: Heartbeat, name_of: Callable[[str], str]) -> None:
        """Take a node's heartbeat.

        Args:
            node: its id.
            heartbeat: what it said.
            name_of: what people call one of its devices, by UUID.
        """
        known = self._known.setdefault(node, {})
        full = is_full(known)
        found, now = differences(known, heartbeat, name_of)
        known |= now
        if is_full(known) and not full:
            words = f"{node} named {MOST_SUBJECTS} ports and driver errors: others are not followed"
            self._events.add("node", node, words, severity=PROBLEM)
        for difference in found:
            self._note(node, difference)
            kind, subject = difference.key
            if kind == PORT:
                before, after = difference.before.value, difference.after.value
                self._note_port(node, subject, before, after, self._clock.now())

    def forget(self, node: str) -> None:
        """Forget a node that was removed; the store forgets it when it removes the node."""
        self._known.pop(node, None)
        self._fallen.pop(node, None)
        for key in [key for key in self._last if key[0] == node]:
            del self._last[key]

    def fallen(self, node: str) -> tuple[str, ...]:
        """Return the ports of a node that were active within the last day and are not, in words."""
        since = self._clock.now() - DAY
        return tuple(
            f"port {port} went down: it was active and is {state}"
            for port, (at, state) in sorted(self._fallen.get(node, {}).items())
            if at >= since
        )

    def masterless(self, node: str) -> bool:
        """Say whether a port of a node saw a master subnet manager once and sees none now."""
        known = self._known.get(node, {})
        return any(kind == MASTER and seen.value is None for (kind, _), seen in known.items())

    def _note_port(
        self, node: str, port: str, before: str | None, after: str | None, at: float
    ) -> None:
        fallen = self._fallen.setdefault(node, {})
        if is_active(after):
            fallen.pop(port, None)
        elif is_active(before):
            fallen[port] = (at, after or "not known")
        elif port in fallen:
            fallen[port] = (fallen[port][0], after or "not known")

    def flaps(self) -> Mapping[str, Mapping[str, int]]:
        """Return how often each port's link went down, by node and port (`mlx5_0/1`).

        Counted since a control plane first heard of the port, whatever was restarted since.
        """
        return {
            node: {subject: seen.total for (kind, subject), seen in known.items() if kind == PORT}
            for node, known in self._known.items()
        }

    async def changes(self, since: float, node: str | None = None) -> tuple[HardwareChange, ...]:
        """Return the changes that were heard of at or after a time, oldest first.

        Of a driver error a control plane may hear long after it happened: from a machine that
        joins, or whose agent was away.

        Raises:
            Unreachable: the store is away.
        """
        found = {one.id: one for one in await self._store.hardware(since=since, node=node)}
        found |= {
            one.id: one
            for one in self._behind.waiting()
            if one.until >= since and node in {None, one.node}
        }
        return tuple(sorted(found.values(), key=lambda one: (one.when, one.id)))

    async def _put(self, changes: Sequence[HardwareChange]) -> None:
        await self._store.put_hardware(changes, before=self._clock.now() - DAY)

    def _note(self, node: str, difference: Difference) -> None:
        now, which = self._clock.now(), (node, difference.key)
        last = self._last.get(which)
        happened = _happened(difference, now)
        if last is not None and _goes_on(last, happened, now):
            change = _longer(last, difference, now)
        else:
            change = self._new(node, difference, happened, now)
            self._tell(change, difference)
        self._last[which] = change
        self._behind.add(change.id, change)

    def _new(
        self, node: str, difference: Difference, happened: float | None, now: float
    ) -> HardwareChange:
        self._number = max(self._number + 1, int(now * 1_000_000))
        kind, subject = difference.key
        return HardwareChange(
            id=f"{self._number:017d}",
            at=now,
            until=now,
            happened=happened,
            node=node,
            kind=kind,
            subject=subject,
            before=difference.before.value,
            after=difference.after.value,
            times=difference.times,
            total=difference.after.total,
            reading=difference.after.reading,
            words=difference.words(difference.before.value, difference.times),
        )

    def _tell(self, change: HardwareChange, difference: Difference) -> None:
        """Tell people, but of what the inventory's differences tell them already.

        What happened a while ago is told with its age, and of another day it warns nobody: a
        machine that joins tells of all that happened to it since it was started.
        """
        if change.kind == MASTER or (change.kind == PORT and change.before != change.after):
            return
        severity = WARNING if change.kind == PORT or difference.action in _ASKS else INFO
        words, age = f"{change.node} {change.words}", change.at - change.when
        if age > GOES_ON:
            words += f" ({show_seconds(age)} ago)"
            severity = INFO if age > DAY else severity
        self._events.add("node", change.node, words, severity=severity)


def _happened(difference: Difference, now: float) -> float | None:
    """Return when a machine says that a change happened; None: it does not, or is no past time."""
    told = difference.happened
    return told if told is not None and 0 < told <= now else None


def _goes_on(last: HardwareChange, happened: float | None, now: float) -> bool:
    """Say whether a change is the last one of its subject that goes on."""
    if now - last.until > GOES_ON:
        return False
    if happened is None or last.happened is None:
        return True
    return happened - (last.happened + last.until - last.at) <= GOES_ON


def _longer(last: HardwareChange, difference: Difference, now: float) -> HardwareChange:
    times = last.times + difference.times
    return msgspec.structs.replace(
        last,
        until=now,
        after=difference.after.value,
        times=times,
        total=difference.after.total,
        reading=difference.after.reading,
        words=difference.words(last.before, times),
    )
