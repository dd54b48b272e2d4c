"""Has the node the labels that the profile selects by."""

from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Space
from llmgw.plan.records import NEVER, Verdict


def labels(request: Request, space: Space) -> Verdict | None:
    """Turn away a node without the labels that the profile asks for."""
    selector = request.profile.node_selector
    if not selector:
        return None
    node = space.node
    for name, wanted in sorted(selector.items()):
        value = node.labels.get(name)
        if value != wanted:
            has = f"label {name} is {value}" if value is not None else f"no label {name}"
            words = f"{node.id}: {has}, needs {name}={wanted}"
            return Verdict(kind=NEVER, rule="labels", words=words)
    return None
