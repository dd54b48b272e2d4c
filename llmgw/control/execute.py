"""Carries out a plan: no choice is left, each step is checked against the newest snapshot.

A step that no longer fits is left out, and one that fails is not tried again: the next pass plans
anew from what is then. What a start is given is booked before its command is sent.

A node that does not answer keeps nobody waiting but itself: each node is told its commands in the
order of the plan, and one that let a deadline pass is told no more of them. What it was not told to
stop counts as told, as an order that was lost does, and is ordered again when that lapses: a pass
for each would be one deadline each.
"""

import asyncio
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, TimedOut, Unreachable
from llmgw.control.agents import Agents
from llmgw.control.asking import StaleTerm
from llmgw.control.events import Events
from llmgw.control.fleet import Fleet
from llmgw.control.leader import Leader
from llmgw.model.commands import Request, StartShard, StopShard
from llmgw.model.record import Problem
from llmgw.plan.records import (
    Assignment,
    DrainReplica,
    EvictReplica,
    KeepReplica,
    Observed,
    Plan,
    PreemptReplica,
    StartReplica,
    Step,
    StopReplica,
)

REMEMBERED = 1000
"""Commands whose sending is remembered."""

AT_ONCE = 2
"""Commands to one node that wait for their answers at once."""

LONGEST = 10.0
"""Seconds after which nothing more of a plan is sent: it was made for what was then."""

_STEP = re.compile(r"steps\[(\d+)\]")

_VERBS: dict[type[Step], str] = {
    StartReplica: "starts",
    StopReplica: "stops",
    DrainReplica: "drains",
    EvictReplica: "evicts",
    PreemptReplica: "pre-empts",
    KeepReplica: "keeps",
}

Check = Callable[[Plan, Observed], tuple[Problem, ...]]
"""`llmgw.plan.check.check` against what is wanted now."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One command that was sent. `at`: wall-clock seconds."""

    at: float
    term: int
    kind: str
    """`start` or `stop`."""
    node: str
    replica: str
    rank: int
    words: str
    """Why, as the plan says."""


def _turns() -> dict[str, asyncio.Semaphore]:
    return defaultdict(lambda: asyncio.Semaphore(AT_ONCE))


@dataclass(frozen=True, slots=True)
class _Round:
    """One plan being carried out."""

    term: int
    began: float
    """Monotonic seconds."""
    turns: dict[str, asyncio.Semaphore] = field(default_factory=_turns)
    """By node."""
    silent: set[str] = field(default_factory=set)
    """Nodes that did not answer in time."""


class Executor:
    """Sends what a plan says, and remembers what it sent.

    Args:
        check: says what is wrong with a plan against a snapshot.
        key: returns the key that a replica's engine asks for.
        on_drain: called when a replica is given up.
    """

    def __init__(
        self,
        fleet: Fleet,
        agents: Agents,
        events: Events,
        leader: Leader,
        *,
        check: Check,
        key: Callable[[str], str],
        clock: Clock,
        on_drain: Callable[[], None],
    ) -> None:
        self._fleet = fleet
        self._agents = agents
        self._events = events
        self._leader = leader
        self._check = check
        self._key = key
        self._clock = clock
        self._on_drain = on_drain
        self.sent: deque[Sent] = deque(maxlen=REMEMBERED)
        self.evictions: Counter[str] = Counter()
        """Replicas that were evicted, by their model, since this control plane started."""
        self.preemptions: Counter[str] = Counter()

    async def apply(self, plan: Plan) -> tuple[str, ...]:
        """Carry out a plan; return what was left out or failed, in words.

        It was decided as leader of this term: nothing of it is sent as leader of another.
        """
        going = _Round(term=self._leader.term, began=self._clock.monotonic())
        wrong = self._wrong(plan)
        left_out = [
            f"left out {step.replica}: {wrong[number]}"
            for number, step in enumerate(plan.steps)
            if number in wrong
        ]
        steps = [step for number, step in enumerate(plan.steps) if number not in wrong]
        for step in steps:
            self._book(step)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(asking) for step in steps for asking in self._begun(step, going)
            ]
        return (*left_out, *filter(None, (task.result() for task in tasks)))

    def _wrong(self, plan: Plan) -> dict[int, str]:
        """Return the steps that do not fit the newest snapshot, by number, and why.

        The plan is checked as a whole, once: a check looks at every node.
        """
        wrong: dict[int, str] = {}
        for problem in self._check(plan, self._fleet.observed()) if plan.steps else ():
            step = _STEP.match(problem.path)
            numbers = range(len(plan.steps)) if step is None else (int(step[1]),)
            for number in numbers:
                wrong.setdefault(number, problem.words)
        return wrong

    def _book(self, step: Step) -> None:
        match step:
            case DrainReplica() | EvictReplica() | PreemptReplica():
                self._note_way(step)
                rolled = isinstance(step, DrainReplica) and step.for_successor
                self._fleet.shards.draining(step.replica, step.words, for_successor=rolled)
                self._on_drain()
            case StartReplica():
                self._fleet.shards.begin(step)
            case StopReplica():
                self._fleet.shards.stopping(step.replica, step.words, step.shards)
            case KeepReplica():
                self._fleet.shards.going_on(step.replica)

    def _begun(self, step: Step, going: _Round) -> list[Coroutine[None, None, str | None]]:
        """Tell of a step; return what tells its nodes, and each returns why it did not."""
        words = f"{_VERBS[type(step)]} {step.replica}: {step.words}"
        self._events.add("placement", step.replica, words)
        match step:
            case StartReplica():
                return [self._start(step, one, going) for one in step.shards]
            case StopReplica():
                return [self._stop(step, node, rank, going) for node, rank in step.shards]
            case _:
                return []  # it left the routes, or returned, when it was booked

    def _note_way(self, step: DrainReplica | EvictReplica | PreemptReplica) -> None:
        """Count who gives way, by the model that goes."""
        replica = self._fleet.replica(step.replica)
        model = (replica.model if replica is not None else None) or ""
        if isinstance(step, EvictReplica):
            self.evictions[model] += 1
        elif isinstance(step, PreemptReplica):
            self.preemptions[model] += 1

    async def _start(self, step: StartReplica, one: Assignment, going: _Round) -> str | None:
        shards, rank = self._fleet.shards, one.spec.rank
        request = StartShard(spec=one.spec, key=self._key(step.replica))
        async with going.turns[one.node]:
            if (why := self._not_told(one.node, going)) is not None:
                shards.withdraw(step.replica, rank)
                return f"{step.replica} was not started: {why}"
            self._note("start", one.node, step.replica, rank, step.words)
            try:
                await self._ask(one.node, request, going)
            except (Unreachable, TimedOut) as error:
                # It may have arrived: what it was given stays booked until the node says.
                return error.message
            except StaleTerm as error:
                shards.withdraw(step.replica, rank)
                return error.message
            except LlmgwError as error:
                shards.refused(step.replica, rank, error.message)
                return error.message
            shards.accepted(step.replica, rank)
            return None

    async def _stop(self, step: StopReplica, node: str, rank: int, going: _Round) -> str | None:
        request = StopShard(replica=step.replica, rank=rank, reason=step.words)
        async with going.turns[node]:
            if (why := self._not_told(node, going)) is not None:
                return f"{step.replica} was not stopped: {why}"
            self._note("stop", node, step.replica, rank, step.words)
            try:
                await self._ask(node, request, going)
            except NotFound as error:
                self._fleet.shards.unknown_there(node, step.replica, rank)
                return error.message
            except LlmgwError as error:
                return error.message
            return None

    def _not_told(self, node: str, going: _Round) -> str | None:
        """Return why a node is told nothing more of a plan; None: it is."""
        if node in going.silent:
            return f"{node} does not answer"
        if self._clock.monotonic() - going.began >= LONGEST:
            return f"{node} takes too long to answer"
        return None if self._agents.connected(node) else f"{node} has no stream now"

    async def _ask(self, node: str, request: Request, going: _Round) -> None:
        try:
            await self._agents.ask(node, request, term=going.term)
        except TimedOut:
            going.silent.add(node)
            raise

    def _note(self, kind: str, node: str, replica: str, rank: int, words: str) -> None:
        self.sent.append(
            Sent(
                at=self._clock.now(),
                term=self._leader.term,
                kind=kind,
                node=node,
                replica=replica,
                rank=rank,
                words=words,
            )
        )
