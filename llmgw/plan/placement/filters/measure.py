"""What is said where a node has too little of something that is counted: memory, cores."""

from llmgw.plan.placement.room import Space
from llmgw.plan.records import NOT_NOW, NOT_UNLESS_EVICTED, Verdict


def of_unknown_use(rule: str, what: str, replica: str, space: Space) -> Verdict:
    """Return the refusal where nobody can say what a replica uses."""
    words = f"{space.node.id}: what {replica} uses of {what} is not known and counts as all"
    return Verdict(kind=NOT_NOW, rule=rule, words=words)


def unless_leaving(rule: str, words: str, *, short: int, leaving: int) -> Verdict:
    """Return the refusal where something else has it: waiting helps where enough of that leaves."""
    kind = NOT_NOW if leaving >= short else NOT_UNLESS_EVICTED
    return Verdict(kind=kind, rule=rule, words=words)
