"""What an agent says, made to fit the link: it costs a part of a message, never the node.

Whatever a tool prints ends in these messages. A list that is too long is cut where the control
plane would cut it (`model.bounds`). A part that makes a message larger than the link carries, or
that no message can hold, is left out, the largest first. Both are told: in the log once, and in the
heartbeats' states of the probes for as long as it lasts.
"""

import math
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from llmgw.base.errors import LlmgwError, Refused, Unreadable
from llmgw.base.log import get
from llmgw.link import codec
from llmgw.model.bounds import bounded
from llmgw.model.link import AgentMessage
from llmgw.model.node import Heartbeat, Inventory, ProbeState, Register

log = get(__name__)

_PLAIN: Final = frozenset({str, int, float, bool, bytes, type(None)})
R = TypeVar("R", Heartbeat, Inventory, Register)
Path = tuple[str, ...]
LeftOut = dict[str, str]
"""Why a part, or some of it, was left out, in words by the part: `devices.foreign`."""

_WEIGHTS: Final = "weights"
_AGENT: Final = "agent"
"""Whose state tells of parts that no probe reads."""
_READS: Final[Mapping[str, str]] = {
    "host": "host",
    "devices": "gpus",
    "devices.foreign": "gpu-use",
    "health": "gpu-health",
    "health.xids": "kernel-log",
    "filesystems": "disks",
    "ports": "ports",
    "sensors": "sensors",
    "shards": "shards",
    "subnet_managers": "subnet managers",
    "nvlink_domain": "imex",
}
"""The probe that reads a part."""


class Outgoing:
    """Sends what does not fit in part, and tells what was left out.

    Args:
        send: sends a message; raises Refused or Unreadable where it does not fit.
    """

    def __init__(self, send: Callable[[AgentMessage], None]) -> None:
        self._send = send
        self._of_inventory: LeftOut = {}
        self._logged: frozenset[str] = frozenset()

    def register(self, register: Register) -> None:
        """Send the first message."""
        left = self._fit(register, lambda kept, _: AgentMessage(register=kept))
        self._of_inventory = {
            part.removeprefix("inventory."): why.replace("inventory.", "", 1)
            for part, why in left.items()
        }
        self._tell(self._of_inventory)

    def inventory(self, changed: Inventory) -> None:
        """Send what changed of the inventory."""
        still = self._still({path[0] for path, _ in _parts(changed)})
        left = self._fit(changed, lambda kept, _: AgentMessage(inventory=kept))
        self._of_inventory = {**still, **left}
        self._tell(self._of_inventory)

    def heartbeat(self, heartbeat: Heartbeat) -> None:
        """Send a heartbeat, which tells as well what was left out of the inventory."""
        still = self._still(set() if heartbeat.weights is None else {_WEIGHTS})
        left = self._fit(
            heartbeat,
            lambda kept, left: AgentMessage(heartbeat=_with_words(kept, {**still, **left})),
        )
        # They are told once, when they changed, and lack until they are told again.
        weights = {part: why for part, why in left.items() if _top(part) == _WEIGHTS}
        self._of_inventory = {**still, **weights}
        self._tell({**still, **left})

    def _still(self, told: Collection[str]) -> LeftOut:
        """Return what was left out of parts of the inventory but those that are told anew."""
        return {part: why for part, why in self._of_inventory.items() if _top(part) not in told}

    def _fit(self, record: R, message: Callable[[R, LeftOut], AgentMessage]) -> LeftOut:
        """Send a record without what does not fit; return what that is.

        Raises:
            LlmgwError: not even what is left when every part is left out can be sent.
        """
        kept, cuts = bounded(record)
        left: LeftOut = {part: f"of {words}" for part, words in cuts.items()}
        while True:
            try:
                _check(kept)
                self._send(message(kept, left))
                return left
            except (Refused, Unreadable) as error:
                parts = _worst(kept, error)
                if not parts:
                    raise
                for part in parts:
                    kept = _without(kept, part)
                    left[".".join(part)] = f"all of {part[-1]} ({error.message})"

    def _tell(self, left: LeftOut) -> None:
        """Log what is left out when that is something else than before."""
        if left.keys() == self._logged:
            return
        self._logged = frozenset(left)
        if left:
            log.warning("not all that is known here is told", left_out=sorted(left.values()))
        else:
            log.info("all that is known here is told again")


def _check(record: msgspec.Struct) -> None:
    """Refuse what the control plane would not read.

    Raises:
        Refused: it has too many items in all.
    """
    items = _items(record)
    if items > codec.ITEMS_MOST:
        raise Refused(f"a message of {items} items, and {codec.ITEMS_MOST} is the limit")


def _items(record: msgspec.Struct) -> int:
    total = 0
    for name in _holding(type(record)):
        value = getattr(record, name)
        if isinstance(value, tuple):
            total += len(value)
            if value and isinstance(value[0], msgspec.Struct):
                total += sum(map(_items, value))
        elif isinstance(value, dict):
            total += len(value)
        elif isinstance(value, msgspec.Struct):
            total += _items(value)
    return total


@cache
def _holding(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields of a record that can hold lists or records."""
    return tuple(
        field.name
        for field in msgspec.structs.fields(kind)
        if not _PLAIN.issuperset(typing.get_args(field.type) or (field.type,))
    )


def _parts(record: msgspec.Struct, above: Path = ()) -> Iterator[tuple[Path, object]]:
    """Yield what a record can do without and has, by its path; an inventory part by part."""
    for field in msgspec.structs.fields(type(record)):
        value = getattr(record, field.name)
        if value is None or field.default is not None:
            continue
        if isinstance(value, Inventory):
            yield from _parts(value, (*above, field.name))
        else:
            yield (*above, field.name), value


def _worst(record: msgspec.Struct, error: LlmgwError) -> list[Path]:
    """Return the parts that no message can hold; where that is none, the largest."""
    parts = dict(_parts(record))
    if isinstance(error, Unreadable):
        unfit = [path for path in parts if not _fits(record, path, parts[path])]
        if unfit:
            return unfit
    return sorted(parts, key=lambda path: _size(parts[path]))[-1:]


def _fits(record: msgspec.Struct, path: Path, value: object) -> bool:
    """Say whether a message can hold a part at all, whatever its size."""
    alone: dict[str, Any] = {path[-1]: value}
    if isinstance(record, Heartbeat):
        message = AgentMessage(heartbeat=Heartbeat(sequence=0, **alone))
    elif isinstance(record, Inventory) or len(path) > 1:
        message = AgentMessage(inventory=Inventory(**alone))
    else:
        message = AgentMessage(register=Register(node="-", **alone))
    try:
        codec.encode(message)
    except LlmgwError:
        return False
    return True


def _size(value: object) -> float:
    try:
        return len(msgspec.json.encode(value))
    except (OverflowError, ValueError):
        return math.inf


def _without(record: R, path: Path) -> R:
    name, *below = path
    inner: Inventory | None = None
    if below:
        inner = _without(getattr(record, name), tuple(below))
    return msgspec.structs.replace(record, **{name: inner})


def _with_words(heartbeat: Heartbeat, left: LeftOut) -> Heartbeat:
    """Return a heartbeat whose states of probes say what was left out of what they read."""
    if not left:
        return heartbeat
    states = {state.name: state for state in heartbeat.probes or ()}
    words: dict[str, list[str]] = {}
    for part, why in left.items():
        words.setdefault(_reader(part), []).append(why)
    for name, whys in words.items():
        state = states.get(name, ProbeState(name=name))
        said = f"left out, for there is more than is told: {', '.join(whys)}"
        error = said if state.error is None else f"{state.error}; {said}"
        states[name] = msgspec.structs.replace(state, error=error)
    return msgspec.structs.replace(heartbeat, probes=tuple(states.values()))


def _reader(part: str) -> str:
    return _READS.get(part) or _READS.get(_top(part), _AGENT)


def _top(part: str) -> str:
    return part.partition(".")[0]
