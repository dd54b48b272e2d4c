"""Which devices of a node a replica takes, and why there are not enough."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from llmgw.model.availability import foreign_bytes, is_instance
from llmgw.model.catalog import Profile
from llmgw.model.condition import names_of
from llmgw.model.device import Device, ForeignProcess
from llmgw.plan.placement.groups import together
from llmgw.plan.placement.kinds import mildest
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space, by_number
from llmgw.plan.records import NEVER, NOT_NOW, NOT_UNLESS_EVICTED, Verdict
from llmgw.plan.words import counted, gigabytes, largest, some

RULE = "devices"
_MIG = "-mig-"
_ANY = "GPU"


def chosen_class(request: Request, space: Space) -> str | None:
    """Return the class that a replica would be given on a node; None: no class has enough free."""
    found = classes(request, space)
    return found[0] if found else None


def takes_one(profile: Profile) -> bool:
    """Say whether a replica takes one device alone, so that it may be a MIG instance."""
    return (
        max(
            profile.gpus,
            profile.nodes,
            profile.tensor_parallel or 1,
            profile.pipeline_parallel or 1,
        )
        == 1
    )


def classes(request: Request, space: Space) -> Sequence[str]:
    """Return the classes of which a node has enough free, the one that it would be given first.

    The classes of a profile come in the order it names them. Where it names none, whole cards come
    before instances, and the class with the fewest free devices first: large blocks stay whole.
    A replica of more than one device is never given instances.
    """
    asked, found = space.chosen
    if asked is not request:
        found = _find_classes(request, space)
        space.chosen = (request, found)
    return found


def _find_classes(request: Request, space: Space) -> Sequence[str]:
    profile = request.profile
    need, free = profile.gpus, space.free(request.device_memory_bytes)
    alone = need == 1 and takes_one(profile)
    if profile.device_classes:
        return [
            name
            for name in profile.device_classes
            if len(free.get(name, ())) >= need and (alone or _MIG not in name)
        ]
    fitting = [
        (is_instance(devices[0]), len(devices), name)
        for name, devices in free.items()
        if len(devices) >= need and (alone or not is_instance(devices[0]))
    ]
    return [name for _, _, name in sorted(fitting)]


def take(
    request: Request, space: Space, adapters: Collection[str] | None = None
) -> tuple[Device, ...]:
    """Return the devices that a replica takes on a node where it fits.

    Args:
        request: what is placed.
        space: the node.
        adapters: network adapters that they are to be near of; None: any.
    """
    name, count = chosen_class(request, space), request.profile.gpus
    if name is None:
        return ()
    near = None if adapters is None else frozenset(adapters)
    key = (name, count, request.device_memory_bytes, near)
    found = space.taken.get(key)
    if found is None:
        free = space.free(request.device_memory_bytes)[name]
        chosen = together(free, count, space.links, ailing=space.ailing, adapters=near)
        found = space.taken[key] = tuple(sorted(chosen, key=by_number))
    return found


def shortage(request: Request, space: Space) -> Verdict:
    """Return why a node has not enough devices, in words: what holds each of them."""
    profile, node = request.profile, space.node.id
    if space.node.inventory.devices is None:
        return _verdict(NOT_NOW, f"{node}: has not said which devices it has")
    wanted = _wanted(profile)
    matching = tuple(sorted(_matching(profile, space), key=by_number))
    if not matching:
        has = some(_classes(space)) or "no devices"
        return _verdict(NEVER, f"{node}: no {wanted}, needs {profile.gpus} (has {has})")
    there = counted(len(matching), wanted, "GPUs" if wanted == _ANY else wanted)
    if len(matching) < profile.gpus:
        return _verdict(NEVER, f"{node}: {there}, needs {profile.gpus}")
    reasons = _reasons(matching, request, space)
    free = len(matching) - len(reasons)
    kind = _kind_of(profile.gpus, matching, reasons)
    why = _why(matching, reasons)
    if free >= profile.gpus:  # Of each class there are too few, and they are never mixed.
        return _mixed(request, space, kind, f"{node}: {free} of {there} free")
    words = f"{node}: {free} of {there} free, needs {profile.gpus}"
    return _verdict(kind, f"{words}: {some(why, '; ')}", why)


@dataclass(frozen=True, slots=True)
class _Reason:
    """Why one device can't be given out: what would help, and words."""

    kind: str
    words: str


def _mixed(request: Request, space: Space, kind: str, words: str) -> Verdict:
    """Return the refusal of a node with enough free devices, but not of one class."""
    free = space.free(request.device_memory_bytes)
    of_each = tuple(f"{len(free[name])} {name or '?'}" for name in sorted(free))
    why = f"needs {request.profile.gpus} of one class ({some(of_each)})"
    return _verdict(kind, f"{words}, {why}", of_each)


def _why(matching: Sequence[Device], reasons: dict[str, _Reason]) -> tuple[str, ...]:
    """Return every reason once, with the devices that it keeps."""
    kept: dict[str, list[Device]] = {}
    for device in matching:
        if device.uuid in reasons:
            kept.setdefault(reasons[device.uuid].words, []).append(device)
    return tuple(f"{names_of(devices)} {reason}" for reason, devices in kept.items())


def _verdict(kind: str, words: str, reasons: tuple[str, ...] = ()) -> Verdict:
    return Verdict(kind=kind, rule=RULE, words=words, reasons=reasons)


def _wanted(profile: Profile) -> str:
    return " or ".join(profile.device_classes) or _ANY


def _matching(profile: Profile, space: Space) -> Iterator[Device]:
    devices = space.node.inventory.devices or ()
    carved = {device.card_uuid for device in devices}
    wanted, one = profile.device_classes, takes_one(profile)
    for device in devices:
        if not wanted and device.mig_enabled and device.uuid in carved:
            continue  # its instances are what is there
        if (one or not is_instance(device)) and (not wanted or device.device_class in wanted):
            yield device


def _classes(space: Space) -> list[str]:
    devices = space.node.inventory.devices or ()
    given = (device for device in devices if is_instance(device) or not device.mig_enabled)
    counts = Counter(device.device_class or "?" for device in given)
    return [f"{count} {name}" for name, count in sorted(counts.items())]


def _reasons(matching: Sequence[Device], request: Request, space: Space) -> dict[str, _Reason]:
    """Return, for each device that can't be given out, what would help and why, in words."""
    holders, found = space.holders(), {}
    for device in matching:
        reason = _held(device, space, holders) or _used(device, request, space)
        if reason is not None:
            found[device.uuid] = reason
    return found


def _held(device: Device, space: Space, holders: dict[str, str]) -> _Reason | None:
    if device.unhealthy:
        return _Reason(NEVER, f"unhealthy: {', '.join(device.unhealthy)}")
    if device.mig_enabled and not is_instance(device):
        return _Reason(NEVER, "in MIG mode, not given out whole")
    holder = holders.get(device.uuid)
    if holder is None:
        return None
    if holder in space.leaving:
        return _Reason(NOT_NOW, f"held by {holder}, which is stopping")
    if holder == space.unknown:
        return _Reason(NOT_NOW, f"counted as held by {holder}, of which nothing is known")
    return _Reason(NOT_UNLESS_EVICTED, f"held by {holder}")


def _used(device: Device, request: Request, space: Space) -> _Reason | None:
    """Return what others leave too little of, in numbers of this device."""
    reading = space.reading(device)
    if reading is not None and device.uuid in space.foreign:
        computing = [one for one in reading.foreign or () if not one.only_draws]
        taken = foreign_bytes(reading)
        if computing:
            return _Reason(NOT_NOW, _by_process(computing[0], taken, space.memory_of(device)))
        total = gigabytes(reading.memory_total_bytes or 0)
        words = f"{gigabytes(taken or 0)} of {total} GB of its memory are used, not by llmgw"
        return _Reason(NOT_NOW, words)
    need, left = request.device_memory_bytes, space.memory_left(device)
    if need is None or left is None or left >= need:
        return None
    total_bytes = space.memory_of(device) or 0
    needs = f"needs {gigabytes(need)}"
    if total_bytes < need:
        return _Reason(NEVER, f"{gigabytes(total_bytes)} GB of memory, {needs}")
    words = f"{gigabytes(left)} of {gigabytes(total_bytes)} GB of memory free, {needs}"
    return _Reason(NOT_NOW, words + _has_memory(device, space))


def _has_memory(device: Device, space: Space) -> str:
    """Return who has memory of a device that nobody holds, for a sentence."""
    reading = space.reading(device)
    has = {
        f"{one.command or 'a process'} (pid {one.pid})": one.memory_bytes or 0
        for one in (reading.foreign if reading is not None else None) or ()
    }
    if device.unified and device.memory_bytes is None:
        has |= {one.replica: one.memory_bytes or 0 for one in space.bookings}
    by = largest(has)
    return f" (held by {by})" if by else ""


def _by_process(process: ForeignProcess, taken: int | None, total: int | None) -> str:
    has = ""
    if taken and total:
        has = f", {gigabytes(taken)} of {gigabytes(total)} GB"
    return f"used by {process.command or 'a process'} (pid {process.pid}{has}), not llmgw's"


def _kind_of(need: int, matching: Sequence[Device], reasons: dict[str, _Reason]) -> str:
    """Return what would help: the mildest thing that frees enough of one class."""
    of_class: dict[str | None, list[Device]] = {}
    for device in matching:
        of_class.setdefault(device.device_class, []).append(device)
    return mildest(
        _kind(
            need, len(devices), Counter(reasons[d.uuid].kind for d in devices if d.uuid in reasons)
        )
        for devices in of_class.values()
    )


def _kind(need: int, there: int, reasons: Counter[str]) -> str:
    left = there - reasons[NEVER]
    if left < need:
        return NEVER
    return NOT_NOW if left - reasons[NOT_UNLESS_EVICTED] >= need else NOT_UNLESS_EVICTED
