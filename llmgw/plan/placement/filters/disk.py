"""Is there space for the weights, where they are not held already."""

from llmgw.model.node import Filesystem
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import NEVER, NOT_NOW, Verdict
from llmgw.plan.words import gigabytes, largest


def disk(request: Request, space: Space) -> Verdict | None:
    """Turn away a node without space for the weights, unless it holds them, complete.

    What it is yet to fetch for others is taken; what it fetches for this one is fetched once. How
    far it is with that is not known: until it is done all of it counts.
    """
    need = request.disk_bytes
    if need is None or request.weights in space.weights or request.weights in space.fetching:
        return None
    free = _free(space.node.inventory.filesystems or ())
    if free is None:
        return None
    coming = sum(space.fetching.values())
    if free - coming >= need:
        return None
    left = gigabytes(max(0, free - coming))
    words = f"{space.node.id}: {left} GB of disk free, needs {gigabytes(need)}"
    if free < need:
        return Verdict(kind=NEVER, rule="disk", words=words)
    fetching = {one.replica: one.disk_bytes or 0 for one in space.bookings if one.weights}
    by = largest(fetching)
    words += f" ({gigabytes(coming)} GB are about to be fetched, by {by})"
    return Verdict(kind=NOT_NOW, rule="disk", words=words)


def _free(filesystems: tuple[Filesystem, ...]) -> int | None:
    """Return the space where weights land: by the directory's name, else the most there is."""
    named = [f for f in filesystems if any("weights" in name for name in f.directories)]
    known = [f.free_bytes for f in named or filesystems if f.free_bytes is not None]
    return max(known, default=None)
