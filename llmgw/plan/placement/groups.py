"""Devices of one node that reach each other well: NVLink peers, one NUMA node, near an adapter."""

from collections.abc import Collection, Mapping, Sequence

from llmgw.model.availability import is_instance
from llmgw.model.device import Device

_DISTANCES = {"PIX": 0, "PXB": 1, "PHB": 2, "NODE": 3, "SYS": 4}
"""How far an adapter is, as `nvidia-smi topo -m` names it: one PCIe bridge, several, the host
bridge, within the NUMA node, beyond it."""
_FAR = 5

_Badness = tuple[int, int, int, int, float, int, int, tuple[int, ...]]


def together(
    free: Sequence[Device],
    count: int,
    links: Mapping[str, float] | None = None,
    *,
    ailing: Mapping[str, int] | None = None,
    adapters: Collection[str] | None = None,
) -> tuple[Device, ...]:
    """Return `count` of the free devices that reach each other best, in their order.

    NVLink peers come first, then those of one NUMA node, then those near an adapter. Of groups that
    are alike in that the one with the fewest slow links is taken, then the one that breaks the
    least of what is left over, so that large blocks stay whole; then the lowest numbers.

    Args:
        free: what can be given out, in the order in which it is; long enough.
        count: how many.
        links: of devices with a slow PCIe link, the share that it has.
        ailing: of devices that are sick or throttling, how well they are; they come last.
        adapters: those to be near of; None: any.
    """
    if count >= len(free) or count < 1:
        return tuple(free[:count])
    measure = _Measure(free, links or {}, ailing or {}, adapters)
    if count == 1:
        groups = {1 << place for place in range(len(free))}
    else:
        groups = {measure.around(seed, count) for seed in range(len(free))}
    best = min(groups, key=measure.badness)
    return tuple(device for place, device in enumerate(free) if best >> place & 1)


def linked(devices: Sequence[Device]) -> bool:
    """Say whether each of some devices has NVLink to each other."""
    return all(
        other.uuid in (device.nvlink_peers or ())
        for place, device in enumerate(devices)
        for other in devices[:place]
    )


class _Measure:
    """How good groups of one node's free devices are. A group is a number: a bit a place."""

    def __init__(
        self,
        free: Sequence[Device],
        links: Mapping[str, float],
        ailing: Mapping[str, int],
        adapters: Collection[str] | None,
    ) -> None:
        place_of = {device.uuid: place for place, device in enumerate(free)}
        self._count = len(free)
        self._peers = [
            sum(1 << place_of[peer] for peer in set(one.nvlink_peers or ()) if peer in place_of)
            for one in free
        ]
        self._beside = _beside(free)
        self._near = [_nearest(device, adapters) for device in free]
        self._ails = [100 - ailing.get(device.uuid, 100) for device in free]
        self._slow = [1.0 - links.get(device.uuid, 1.0) for device in free]

    def around(self, seed: int, count: int) -> int:
        """Return the devices that are nearest to one of them, and itself."""
        peers, beside = self._peers[seed], self._beside[seed]
        near = sorted(
            (self._ails[other], not peers >> other & 1, not beside >> other & 1, self._near[other],
             other)
            for other in range(self._count)
            if other != seed
        )  # fmt: skip
        return (1 << seed) | sum(1 << other for *_, other in near[: count - 1])

    def badness(self, group: int) -> _Badness:
        """Return how bad a group is; the first of its figures that differs decides."""
        places = [place for place in range(self._count) if group >> place & 1]
        linked_pairs = sum((self._peers[place] & group).bit_count() for place in places)
        # What one device alone is near to matters little: it is left to those that talk more.
        near = sum(self._near[place] for place in places) if len(places) > 1 else 0
        beside = 0
        for place in places:
            beside |= self._beside[place]
        return (
            sum(self._ails[place] for place in places),
            len(places) * (len(places) - 1) - linked_pairs,
            len({self._beside[place] for place in places}),
            near,
            sum(self._slow[place] for place in places),
            sum((self._peers[place] & ~group).bit_count() for place in places),
            (beside & ~group).bit_count(),
            tuple(places),
        )


def _beside(free: Sequence[Device]) -> list[int]:
    """Return, for each device, those on the same NUMA node; of instances, on the same card."""
    keys = [one.card_uuid if is_instance(one) else one.numa_node for one in free]
    found: dict[object, int] = {}
    for place, key in enumerate(keys):
        found[key] = found.get(key, 0) | 1 << place
    return [found[key] for key in keys]


def _nearest(device: Device, adapters: Collection[str] | None) -> int:
    if not device.adapters:
        return _FAR
    return min(
        (
            _DISTANCES.get(one.distance.upper(), _FAR)
            for one in device.adapters
            if adapters is None or one.adapter in adapters
        ),
        default=_FAR,
    )
