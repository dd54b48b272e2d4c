"""What was decided, and what would be."""

from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.shapes import ExplainQuery, PlanQuery
from llmgw.model.catalog import Model
from llmgw.model.catalog_check import check_model
from llmgw.model.keys import ADMIN, READ
from llmgw.plan.modelplan import ModelPlan
from llmgw.plan.records import Candidate, MassLoss, Plan
from llmgw.plan.whatif import Snapshot


async def plan(call: Call, query: PlanQuery) -> Plan | None:
    """Return what the last pass decided, null before the first; or what the next one would."""
    if query.next:
        return call.plane.foresight.next_plan(stopped=query.stopped)
    return call.plane.last_plan


async def accept_loss(call: Call) -> MassLoss | None:
    """Take nodes that were lost together for lost; null when none were."""
    lost = call.plane.fleet.losses.now
    await call.plane.accept_loss(actor=call.caller.name)
    return lost


async def explain(call: Call, query: ExplainQuery) -> tuple[Candidate, ...]:
    """Return what placement says of each node for one more replica of a model."""
    return call.plane.foresight.explain(call.path["name"], query.profile)


async def plan_model(call: Call, body: Model) -> ModelPlan:
    """Return what serving a model would take; nothing is changed."""
    return await call.plane.foresight.plan_model(body)


async def snapshot(call: Call) -> Snapshot:
    """Return what the cluster is told and what there is, for `llmgw simulate`."""
    return call.plane.foresight.snapshot()


OPERATIONS = (
    Operation(
        "GET",
        f"{PREFIX}/plan",
        READ,
        plan,
        "What the last pass decided and why, or what the next one would do.",
    ),
    Operation(
        "POST",
        f"{PREFIX}/mass-loss/accept",
        ADMIN,
        accept_loss,
        "Take nodes that were lost together for lost: what they ran is placed anew.",
    ),
    Operation(
        "GET",
        f"{PREFIX}/explain/{{name:path}}",
        READ,
        explain,
        "What placement says of each node for one more replica of a model.",
    ),
    Operation(
        "POST",
        f"{PREFIX}/plan/model",
        READ,
        plan_model,
        "What serving a model would take: nodes, devices, memory, downloads, what gives way.",
        meaning=check_model,
    ),
    Operation(
        "GET",
        f"{PREFIX}/snapshot",
        READ,
        snapshot,
        "The cluster at this moment: what it is told and what there is. It holds no secret.",
    ),
)
