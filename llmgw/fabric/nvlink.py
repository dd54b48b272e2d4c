"""Whether a card is joined to an NVLink domain, with cards of other machines."""

from collections.abc import Iterator, Sequence

from llmgw.model.device import Device, NvlinkFabric
from llmgw.model.fabric import NvlinkDomain


def joined(fabric: NvlinkFabric | None, domain: NvlinkDomain | None) -> bool | None:
    """Say whether a card can reach cards of other machines over NVLink.

    A completed state with a cluster is not enough: memory is shared through nvidia-imex, which
    must run and have a channel. A cluster of zeros is what the NVSwitches of a single machine
    give.

    Args:
        fabric: what the card tells; None: nothing.
        domain: what its machine tells of nvidia-imex; None: nothing.

    Returns:
        None when nothing speaks against it but something of it is not known.
    """
    if fabric is None:
        return None
    answers = [answer for answer, _ in _conditions(fabric, domain or NvlinkDomain())]
    if False in answers:
        return False
    return None if None in answers else True


def why_not(fabric: NvlinkFabric | None, domain: NvlinkDomain | None) -> str | None:
    """Return in words what keeps a card out of a domain; None when nothing is known to."""
    if fabric is None:
        return None
    conditions = _conditions(fabric, domain or NvlinkDomain())
    return "; ".join(words for answer, words in conditions if answer is False) or None


def domain_of(devices: Sequence[Device], domain: NvlinkDomain | None) -> str | None:
    """Return the NVLink domain that all cards of a machine are joined to: `cluster/clique`.

    Cards of one cluster reach each other only within a clique. None when a card is not joined, when
    that is not known of one, or when they are in several.
    """
    found: set[str] = set()
    for device in devices:
        fabric = device.nvlink
        if fabric is None or joined(fabric, domain) is not True or fabric.clique_id is None:
            return None
        found.add(f"{fabric.cluster_uuid}/{fabric.clique_id}")
    return found.pop() if len(found) == 1 else None


def is_cluster(uuid: str) -> bool:
    """Say whether an NVLink cluster's UUID is one of several machines: not all zeros."""
    return not set(uuid) <= {"0", "-"}


def _conditions(fabric: NvlinkFabric, domain: NvlinkDomain) -> Iterator[tuple[bool | None, str]]:
    """Yield what must hold, and the words for when it does not."""
    yield _is(fabric.state, "completed"), f"the fabric's state is {fabric.state}, not Completed"
    yield _is(fabric.status, "success"), f"the fabric's status is {fabric.status}, not Success"
    uuid = fabric.cluster_uuid
    yield (
        None if uuid is None else is_cluster(uuid),
        "its cluster is all zeros: it is linked within its machine alone",
    )
    yield domain.imex_running, "nvidia-imex does not run"
    channels = domain.imex_channels
    yield None if channels is None else bool(channels), "nvidia-imex has no channel"


def _is(said: str | None, wanted: str) -> bool | None:
    return None if said is None else said.lower() == wanted
