"""What was decided, and what would be."""

from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.shapes import ExplainQuery
from llmgw.model.gateway import Gateway
from llmgw.model.keys import READ
from llmgw.plan.records import Candidate, Plan


async def plan(call: Call) -> Plan | None:
    """Return what the last pass decided; null before the first."""
    return call.plane.last_plan


async def explain(call: Call, query: ExplainQuery) -> tuple[Candidate, ...]:
    """Return what placement says of each node for one more replica of a model."""
    return call.plane.explain(call.path["name"], query.profile)


async def gateways(call: Call) -> tuple[Gateway, ...]:
    """Return all gateways, by id."""
    return tuple(sorted(call.plane.gateways.all(), key=lambda gateway: gateway.id))


OPERATIONS = (
    Operation("GET", f"{PREFIX}/plan", READ, plan, "What the last pass decided, and why."),
    Operation(
        "GET",
        f"{PREFIX}/explain/{{name:path}}",
        READ,
        explain,
        "What placement says of each node for one more replica of a model.",
    ),
    Operation("GET", f"{PREFIX}/gateways", READ, gateways, "All gateways."),
)
