"""Which devices of a node a replica takes, and why there are not enough."""

from collections import Counter
from collections.abc import Iterator, Sequence

from llmgw.model.availability import is_instance
from llmgw.model.catalog import Profile
from llmgw.model.condition import names_of
from llmgw.model.device import Device
from llmgw.plan.placement.groups import together
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space, by_number
from llmgw.plan.records import NEVER, NOT_NOW, NOT_UNLESS_EVICTED, Verdict
from llmgw.plan.words import counted, some

RULE = "devices"
_MIG = "-mig-"
_ANY = "GPU"


def chosen_class(profile: Profile, space: Space) -> str | None:
    """Return the class that a replica would be given on a node; None: no class has enough free.

    The classes of a profile come in the order it names them. Where it names none, whole cards come
    before instances, and the class with the fewest free devices first: large blocks stay whole.
    """
    need, free = profile.gpus, space.free()
    if not free:
        return None
    if profile.device_classes:
        for name in profile.device_classes:
            if len(free.get(name, ())) >= need and (need == 1 or _MIG not in name):
                return name
        return None
    fitting = [
        (is_instance(devices[0]), len(devices), name)
        for name, devices in free.items()
        if len(devices) >= need and (need == 1 or not is_instance(devices[0]))
    ]
    return min(fitting)[2] if fitting else None


def take(profile: Profile, space: Space) -> tuple[Device, ...]:
    """Return the devices that a replica takes on a node where it fits."""
    name = chosen_class(profile, space)
    if name is None:
        return ()
    devices = together(space.free()[name], profile.gpus, space.links)
    return tuple(sorted(devices, key=by_number))


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
    reasons = _reasons(matching, space)
    words = f"{node}: {len(matching) - len(reasons)} of {there} free, needs {profile.gpus}"
    kind = _kind(profile.gpus, len(matching), Counter(kind for kind, _ in reasons.values()))
    why = _why(matching, reasons)
    return _verdict(kind, f"{words}: {some(why, '; ')}", why)


def _why(matching: Sequence[Device], reasons: dict[str, tuple[str, str]]) -> tuple[str, ...]:
    """Return every reason once, with the devices that it keeps."""
    kept: dict[str, list[Device]] = {}
    for device in matching:
        if device.uuid in reasons:
            kept.setdefault(reasons[device.uuid][1], []).append(device)
    return tuple(f"{names_of(devices)} {reason}" for reason, devices in kept.items())


def _verdict(kind: str, words: str, reasons: tuple[str, ...] = ()) -> Verdict:
    return Verdict(kind=kind, rule=RULE, words=words, reasons=reasons)


def _wanted(profile: Profile) -> str:
    return " or ".join(profile.device_classes) or _ANY


def _matching(profile: Profile, space: Space) -> Iterator[Device]:
    devices = space.node.inventory.devices or ()
    carved = {device.card_uuid for device in devices}
    for device in devices:
        if not profile.device_classes and device.mig_enabled and device.uuid in carved:
            continue  # its instances are what is there
        named = device.device_class in profile.device_classes
        if (named or not profile.device_classes) and (profile.gpus == 1 or not is_instance(device)):
            yield device


def _classes(space: Space) -> list[str]:
    devices = space.node.inventory.devices or ()
    given = (device for device in devices if is_instance(device) or not device.mig_enabled)
    counts = Counter(device.device_class or "?" for device in given)
    return [f"{count} {name}" for name, count in sorted(counts.items())]


def _reasons(matching: Sequence[Device], space: Space) -> dict[str, tuple[str, str]]:
    """Return, for each device that can't be given out, what would help and why, in words."""
    holders, found = space.holders(), {}
    for device in matching:
        reason = _reason(device, space, holders)
        if reason is not None:
            found[device.uuid] = reason
    return found


def _reason(device: Device, space: Space, holders: dict[str, str]) -> tuple[str, str] | None:
    if device.unhealthy:
        return NEVER, f"unhealthy: {', '.join(device.unhealthy)}"
    if device.mig_enabled and not is_instance(device):
        return NEVER, "in MIG mode, not given out whole"
    holder = holders.get(device.uuid)
    if holder is not None:
        if holder in space.leaving:
            return NOT_NOW, f"held by {holder}, which is stopping"
        if holder == space.unknown:
            return NOT_NOW, f"counted as held by {holder}, of which nothing is known"
        return NOT_UNLESS_EVICTED, f"held by {holder}"
    processes = space.foreign.get(device.uuid)
    if processes:
        first = processes[0]
        return NOT_NOW, f"used by {first.command or 'a process'} (pid {first.pid}), not llmgw's"
    return None


def _kind(need: int, there: int, reasons: Counter[str]) -> str:
    """Return what would help: the mildest that frees enough."""
    left = there - reasons[NEVER]
    if left < need:
        return NEVER
    return NOT_NOW if left - reasons[NOT_UNLESS_EVICTED] >= need else NOT_UNLESS_EVICTED
