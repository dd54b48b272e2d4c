"""Carries jobs on: looks, decides by `advance`, and does what it orders.

Each pass asks at most once for each step: nodes that fetch are asked again by the next one.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence

from llmgw.base.clock import Clock
from llmgw.base.errors import Conflict, LlmgwError, NotFound, Refused, TimedOut, Unreachable
from llmgw.control.agents import Agents
from llmgw.control.asking import LacksFeature, StaleTerm
from llmgw.control.catalog import Catalog
from llmgw.control.fleet import Fleet
from llmgw.control.foresight import Foresight
from llmgw.control.jobs import Jobs
from llmgw.control.leader import Leader
from llmgw.model.commands import FAILED, FetchWeights, WeightsState
from llmgw.model.faulty import Faulty
from llmgw.model.jobs import Job
from llmgw.model.node import LOST
from llmgw.plan.modelplan import ModelPlan
from llmgw.plan.records import Candidate
from llmgw.plan.serving.advance import advance, current
from llmgw.plan.serving.records import (
    Answer,
    AskNode,
    CannotFetch,
    Forgive,
    JudgeNodes,
    MakePlan,
    Order,
    PutModel,
    Seen,
    Silent,
)
from llmgw.plan.words import some

EVERY = 1.0
"""Seconds between two passes while a job goes on."""
IDLE = 60.0
PLANS_EACH = 5.0
"""Seconds between two looks at the whole fleet for a job: a plan while it waits for room, a verdict
of each node while its starts fail."""
ANSWERS_IN = 5.0
"""Seconds that a node has for its answer, which it gives at once."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ways:
    """What the pass may do beside asking nodes, and how it sees the fleet.

    Attributes:
        look: the fleet as a job about a model sees it.
        forgive: forgets failed starts of a model, and has it tried now.
        foresight: plans a model, and judges nodes for one that failed on others.
    """

    look: Callable[[str], Seen]
    forgive: Callable[[str], None]
    foresight: Foresight


class JobsPass:
    """The pass `jobs`."""

    def __init__(
        self,
        jobs: Jobs,
        fleet: Fleet,
        agents: Agents,
        catalog: Catalog,
        leader: Leader,
        *,
        clock: Clock,
        ways: Ways,
    ) -> None:
        self._jobs = jobs
        self._fleet = fleet
        self._agents = agents
        self._catalog = catalog
        self._leader = leader
        self._clock = clock
        self._ways = ways
        self._planned: dict[str, float] = {}
        """When the whole fleet was last looked at for each job. Monotonic seconds."""

    def period(self) -> float:
        """Return the seconds between two passes."""
        return EVERY if self._jobs.active() else IDLE

    async def run(self) -> str:
        """Carry on each job, and return where each is."""
        if not self._leader.leading:
            return "nothing to do: this control plane does not lead"
        active, term = self._jobs.active(), self._leader.term
        self._planned = {job.id: self._planned[job.id] for job in active if job.id in self._planned}
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._carried_on(job, term)) for job in active]
        return some([task.result() for task in tasks], "; ") or "no job goes on"

    async def _carried_on(self, job: Job, term: int) -> str:
        try:
            return await self._go_on(job, term)
        except LlmgwError as error:
            return f"{job.id}: {error.message}"

    async def _go_on(self, job: Job, term: int) -> str:
        """Move a job as far as it goes now."""
        seen = self._ways.look(job.subject)
        asked: set[str] = set()
        while True:
            after, orders = advance(job, seen, self._clock.now())
            if after != job:
                if not await self._jobs.note(job, after):
                    return f"{job.id} was changed meanwhile"
                job = after
            step = current(job)
            if job.over or step is None:
                return f"{job.id} is {job.state}"
            again = step.name in asked or not self._due(job, orders)
            if again or not orders:
                return f"{job.id} is at {step.name}"
            asked.add(step.name)
            seen = await self._done(job, step.name, orders, term)

    def _due(self, job: Job, orders: Sequence[Order]) -> bool:
        if not any(isinstance(order, MakePlan | JudgeNodes) for order in orders):
            return True
        last = self._planned.get(job.id)
        return last is None or self._clock.monotonic() - last >= PLANS_EACH

    async def _done(self, job: Job, step: str, orders: Sequence[Order], term: int) -> Seen:
        """Do what a step ordered; return the fleet then, and what came of it."""
        plan: ModelPlan | None = None
        not_put: str | None = None
        judged: Mapping[str, tuple[Candidate, ...]] | None = None
        nodes = [order for order in orders if isinstance(order, AskNode)]
        answers = await self._ask(nodes, term)
        for order in orders:
            match order:
                case MakePlan(model=model):
                    plan = await self._ways.foresight.plan_model(model)
                    self._planned[job.id] = self._clock.monotonic()
                case PutModel():
                    not_put = await self._put(order, job.actor)
                case Forgive(model=name):
                    self._ways.forgive(name)
                case JudgeNodes(model=name):
                    judged = await self._ways.foresight.judged(name)
                    self._planned[job.id] = self._clock.monotonic()
                case AskNode():
                    pass
        return dataclasses.replace(
            self._ways.look(job.subject),
            plan=plan,
            asked=step,
            answers=answers,
            judged=judged,
            not_put=not_put,
        )

    async def _put(self, order: PutModel, actor: str) -> str | None:
        """Put a model into the catalog; return why it was not taken."""
        try:
            await self._catalog.put(order.model, order.expected, actor=actor)
        except (Conflict, Faulty) as error:
            return error.message
        return None

    async def _ask(self, orders: Sequence[AskNode], term: int) -> dict[str, Answer]:
        async with asyncio.TaskGroup() as group:
            tasks = {order.node: group.create_task(self._asked(order, term)) for order in orders}
        return {node: task.result() for node, task in tasks.items()}

    async def _asked(self, order: AskNode, term: int) -> Answer:
        if (gone := self._gone(order.node)) is not None:
            return Silent(gone, gone=True)
        request = FetchWeights(source=order.source, check_only=order.check_only)
        try:
            answer = await self._agents.ask(order.node, request, ANSWERS_IN, term=term)
        except LacksFeature as error:
            return CannotFetch(f"{error.message}; it fetches when a replica starts there")
        except StaleTerm as error:
            return Silent(error.message)
        except (Unreachable, TimedOut) as error:
            return Silent(error.message)
        except (Refused, NotFound) as error:
            words = error.message.removeprefix(f"{order.node}: ")
            return WeightsState(state=FAILED, words=words)
        if isinstance(answer, WeightsState):
            return answer
        return Silent(f"{order.node} gave an answer that says nothing of weights")

    def _gone(self, node: str) -> str | None:
        """Return why a node is none to wait for; None when it is one."""
        known = self._fleet.node(node)
        if known is None:
            return f"{node} is not in the cluster any more"
        if known.liveness == LOST:
            return f"{node} is lost"
        return f"{node} is {known.wish}" if known.wish is not None else None
