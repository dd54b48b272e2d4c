"""Has the node enough CPU cores that are not reserved (PLC-5)."""

from llmgw.plan.placement.filters.measure import of_unknown_use, too_little
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import NEVER, Verdict
from llmgw.plan.words import counted

RULE = "cores"


def cores(request: Request, space: Space) -> Verdict | None:
    """Turn away a node with too few CPU cores that are not reserved; unknown use counts as all."""
    need = request.profile.cpu_cores
    host = space.node.inventory.host
    total = host.cpus if host is not None else None
    if need is None or total is None:
        return None
    node = space.node.id
    if total < need:
        return Verdict(kind=NEVER, rule=RULE, words=f"{node}: {total} CPU cores, needs {need}")
    if space.unknown is not None:
        return of_unknown_use(RULE, f"{total} CPU cores", space.unknown, space)
    left = total - space.cores
    if left >= need:
        return None
    words = f"{node}: {max(left, 0)} of {total} CPU cores free, needs {need}"
    return too_little(
        RULE,
        words,
        space,
        short=need - left,
        held=lambda one: one.cpu_cores,
        shown=lambda count: counted(count, "core"),
    )
