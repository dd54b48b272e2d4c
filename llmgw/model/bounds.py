"""How much of a message from another machine is taken: long texts and lists are cut. Pure.

A machine may be broken or hostile. What it says is kept, shown, stored and told; so each text and
each list has an end, whatever the message's size. Bounds are far beyond what machines have.
"""

import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import is_
from typing import Any, TypeVar

import msgspec

R = TypeVar("R", bound=msgspec.Struct)

NAME = 256
"""Characters of a name, a version, a UUID, a state."""
PROSE = 4096
"""Characters of what people read, and of a path."""
SPEC = 64 << 10
"""Characters of what this control plane or a key wrote itself and gets back."""

_LONG = frozenset({
    "words", "error", "reason", "hint", "unhealthy", "last_lines", "lines", "log_lines",
    "path", "mount", "directories", "served_name", "url",
})  # fmt: skip
"""Fields, of whatever record, that hold more than a name; weights are named by paths too."""
_LONG_OF = frozenset({("WeightsHeld", "name"), ("Host", "cpu_model")})
_WRITTEN = frozenset({"ShardSpec", "CertificateRequest"})

ITEMS = 1024
"""Of a list that is not named below."""
_ITEMS: Mapping[tuple[str, str], int] = {
    ("Inventory", "devices"): 256,
    ("Inventory", "filesystems"): 256,
    ("Inventory", "engines"): 64,
    ("Inventory", "can_install"): 64,
    ("Inventory", "ports"): 64,
    ("Inventory", "subnet_managers"): 256,
    ("Inventory", "weights"): 2048,
    ("Inventory", "warnings"): 64,
    ("Heartbeat", "devices"): 256,
    ("Heartbeat", "health"): 256,
    ("Heartbeat", "filesystems"): 256,
    ("Heartbeat", "ports"): 64,
    ("Heartbeat", "probes"): 128,
    ("Heartbeat", "weights"): 2048,
    ("Register", "features"): 64,
    ("Register", "labels"): 128,
    ("Register", "shards"): 512,
    ("Heartbeat", "shards"): 512,
    ("Device", "unhealthy"): 32,
    ("Device", "adapters"): 64,
    ("Device", "nvlink_peers"): 256,
    ("DeviceSample", "throttle_reasons"): 32,
    ("DeviceSample", "foreign"): 256,
    ("DeviceHealth", "xids"): 128,
    ("Port", "counters"): 128,
    ("Filesystem", "directories"): 64,
    ("InstalledEngine", "back_ends"): 32,
    ("NvlinkDomain", "imex_channels"): 4096,
    ("ShardStatus", "last_lines"): 256,
    ("LogsRead", "lines"): 2000,
    ("LogLines", "lines"): 2000,
    ("UsageReport", "totals"): 1 << 20,  # what were cut of it would be acknowledged and lost
    ("UsageReport", "over"): 1 << 20,
    ("TrafficReport", "models"): 2048,
    ("LoadReport", "replicas"): 1 << 14,  # one that were cut would count as idle
    ("LoadReport", "queues"): 2048,
    ("ModelTraffic", "replies"): 512,
    ("ModelTraffic", "refusals"): 128,
    ("ModelTraffic", "errors"): 128,
    ("ModelTraffic", "choices"): 64,
    ("ModelTraffic", "fallbacks"): 64,
    ("QuotaReport", "keys"): 4096,  # a gateway tells of 1024 at once
    ("Histogram", "bounds"): 256,
    ("Histogram", "counts"): 257,
}

_FIRST: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    ("DeviceHealth", "xids"): lambda xid: (xid.cleared is True, -(xid.last_seen or 0.0)),
    ("DeviceSample", "foreign"): lambda one: -(one.memory_bytes or 0),
    ("Heartbeat", "probes"): lambda probe: probe.error is None,
    ("Register", "shards"): lambda shard: shard.state in {"stopped", "failed"},
}
"""What counts most of a list comes first by this; of all others the first items are kept."""
_NEWEST_LAST = frozenset({("ShardStatus", "last_lines"), ("LogsRead", "lines"),
                          ("LogLines", "lines")})  # fmt: skip

Cuts = dict[str, str]
"""What was cut, by the path of the field, in words."""

_Part = Callable[[Any, Cuts], Any]


def bounded(message: R) -> tuple[R, Cuts]:
    """Return what is taken of a received message, and what of it was cut.

    A text that is cut ends with an ellipsis. A message within all bounds is returned as it is.
    """
    cuts: Cuts = {}
    kept: R = _record(type(message), "")(message, cuts)
    return kept, cuts


def shortened(text: str, most: int = PROSE) -> str:
    """Return a text of at most so many characters; one that was cut ends with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


@cache
def _record(kind: type[msgspec.Struct], path: str) -> _Part:
    """Compile what cuts a record; each field that holds neither texts nor lists costs nothing."""
    steps = tuple(
        (field.name, part)
        for field in msgspec.structs.fields(kind)
        if (part := _field(kind, field.name, field.type, path)) is not None
    )

    def cut(value: Any, cuts: Cuts) -> Any:  # noqa: ANN401
        changed: dict[str, Any] = {}
        for name, part in steps:
            held = getattr(value, name)
            if held is not None and (kept := part(held, cuts)) is not held:
                changed[name] = kept
        return msgspec.structs.replace(value, **changed) if changed else value

    return cut


def _field(kind: type[msgspec.Struct], name: str, hint: Any, path: str) -> _Part | None:  # noqa: ANN401
    where = f"{path}.{name}" if path else name
    which = (kind.__name__, name)
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin not in {tuple, dict}:
        options = [one for one in parts or (hint,) if one is not type(None)]
        if len(options) == 1 and options[0] is not hint:
            return _field(kind, name, options[0], path)
        return _single(options, which, where)
    item = _single([parts[0] if origin is tuple else parts[1]], which, where)
    most = _ITEMS.get(which, ITEMS)
    if origin is dict:
        return _map(most, _text(where, _longest(*which)), item or _as_it_is, where)
    return _many(most, which, item, where)


def _single(options: Sequence[Any], which: tuple[str, str], where: str) -> _Part | None:
    if options == [str]:
        return _text(where, _longest(*which))
    records = [one for one in options if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    if len(records) <= 1:
        return _record(records[0], where) if records else None
    # One of several kinds: which it is shows in the value.
    parts = {kind: _record(kind, where) for kind in records}
    return lambda value, cuts: parts[type(value)](value, cuts)


def _longest(kind: str, name: str) -> int:
    if kind in _WRITTEN or kind.endswith(("Source", "Adapter", "PackageRef")):
        return SPEC
    return PROSE if name in _LONG or (kind, name) in _LONG_OF else NAME


def _text(where: str, most: int) -> _Part:
    def cut(text: str, cuts: Cuts) -> str:
        if len(text) <= most:
            return text
        cuts[where] = f"{where} (texts of at most {most} characters)"
        return text[: most - 1] + "…"

    return cut


def _many(most: int, which: tuple[str, str], item: _Part | None, where: str) -> _Part:
    first = _FIRST.get(which)

    def cut(held: tuple[Any, ...], cuts: Cuts) -> tuple[Any, ...]:
        if len(held) > most:
            cuts[where] = f"{where} (at most {most})"
            if which in _NEWEST_LAST:
                held = held[-most:]
            else:
                held = tuple(sorted(held, key=first) if first else held)[:most]
        if item is None:
            return held
        kept = tuple([item(one, cuts) for one in held])
        return held if all(map(is_, kept, held)) else kept

    return cut


def _map(most: int, key: _Part, item: _Part, where: str) -> _Part:
    def cut(held: dict[str, Any], cuts: Cuts) -> dict[str, Any]:
        if len(held) > most:
            cuts[where] = f"{where} (at most {most})"
        kept = {key(name, cuts): item(value, cuts) for name, value in list(held.items())[:most]}
        return held if kept == held else kept

    return cut


def _as_it_is(value: Any, cuts: Cuts) -> Any:  # noqa: ANN401
    return value
