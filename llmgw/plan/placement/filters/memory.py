"""Has the node enough host memory (PLC-4)."""

from llmgw.plan.placement.filters.measure import of_unknown_use, too_little
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import NEVER, Verdict
from llmgw.plan.words import gigabytes

RULE = "memory"


def memory(request: Request, space: Space) -> Verdict | None:
    """Turn away a node whose memory, less what is booked of it, is too small.

    One that does not say how much it has is usable. What is not known to be used counts as all.
    """
    need = request.memory_bytes
    host = space.node.inventory.host
    total = host.memory_bytes if host is not None else None
    if need is None or total is None:
        return None
    node, needs = space.node.id, f"needs {gigabytes(need)}"
    if total < need:
        words = f"{node}: {gigabytes(total)} GB of memory, {needs}"
        return Verdict(kind=NEVER, rule=RULE, words=words)
    unknown = space.unknown or space.unknown_memory
    if unknown is not None:
        return of_unknown_use(RULE, f"{gigabytes(total)} GB of memory", unknown, space)
    left = total - space.memory - (space.asked if request.reserved_bytes else 0)
    if left >= need:
        return None
    words = f"{node}: {gigabytes(max(left, 0))} of {gigabytes(total)} GB of memory free, {needs}"
    return too_little(
        RULE,
        words,
        space,
        short=need - left,
        held=lambda one: one.memory_bytes or one.asks_bytes,
        shown=lambda count: f"{gigabytes(count)} GB",
    )
