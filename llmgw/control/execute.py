"""Carries out a plan: no choice is left, each step is checked against the newest snapshot.

A step that no longer fits is left out, and one that fails is not tried again: the next pass plans
anew from what is then. What a start is given is booked before its command is sent.
"""

import asyncio
import re
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, TimedOut, Unreachable
from llmgw.control.agents import Agents
from llmgw.control.asking import StaleTerm
from llmgw.control.events import Events
from llmgw.control.fleet import Fleet
from llmgw.control.leader import Leader
from llmgw.model.commands import StartShard, StopShard
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

AT_ONCE = 64
"""Commands that wait for their answers at once."""

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
        self._slots = asyncio.Semaphore(AT_ONCE)
        self.sent: deque[Sent] = deque(maxlen=REMEMBERED)
        self.evictions: Counter[str] = Counter()
        """Replicas that were evicted, by their model, since this control plane started."""
        self.preemptions: Counter[str] = Counter()

    async def apply(self, plan: Plan) -> tuple[str, ...]:
        """Carry out a plan; return what was left out or failed, in words.

        It was decided as leader of this term: nothing of it is sent as leader of another.
        """
        term, wrong = self._leader.term, self._wrong(plan)
        left_out = [
            f"left out {step.replica}: {wrong[number]}"
            for number, step in enumerate(plan.steps)
            if number in wrong
        ]
        steps = [step for number, step in enumerate(plan.steps) if number not in wrong]
        for step in steps:
            self._book(step)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._carry_out(step, term)) for step in steps]
        return (*left_out, *(words for task in tasks for words in task.result()))

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
                self._fleet.shards.draining(step.replica, step.words)
                self._on_drain()
            case StartReplica():
                self._fleet.shards.begin(step)
            case StopReplica():
                self._fleet.shards.stopping(step.replica, step.words)
            case KeepReplica():
                self._fleet.shards.going_on(step.replica)

    async def _carry_out(self, step: Step, term: int) -> list[str]:
        words = f"{_VERBS[type(step)]} {step.replica}: {step.words}"
        self._events.add("placement", step.replica, words)
        done: list[str | None] = []
        match step:
            case StartReplica():
                done = [await self._start(step, one, term) for one in step.shards]
            case StopReplica():
                done = [await self._stop(step, node, rank, term) for node, rank in step.shards]
            case DrainReplica() | EvictReplica() | PreemptReplica() | KeepReplica():
                pass  # nobody is told: it left the routes, or returned, when it was booked
        return [words for words in done if words is not None]

    def _note_way(self, step: DrainReplica | EvictReplica | PreemptReplica) -> None:
        """Count who gives way, by the model that goes."""
        replica = self._fleet.replica(step.replica)
        model = (replica.model if replica is not None else None) or ""
        if isinstance(step, EvictReplica):
            self.evictions[model] += 1
        elif isinstance(step, PreemptReplica):
            self.preemptions[model] += 1

    async def _start(self, step: StartReplica, one: Assignment, term: int) -> str | None:
        shards, rank = self._fleet.shards, one.spec.rank
        if not self._agents.connected(one.node):
            shards.withdraw(step.replica, rank)
            return f"{step.replica} was not started: {one.node} has no stream now"
        self._note("start", one.node, step.replica, rank, step.words)
        request = StartShard(spec=one.spec, key=self._key(step.replica))
        try:
            async with self._slots:
                await self._agents.ask(one.node, request, term=term)
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

    async def _stop(self, step: StopReplica, node: str, rank: int, term: int) -> str | None:
        if not self._agents.connected(node):
            return f"{step.replica} was not stopped: {node} has no stream now"
        self._note("stop", node, step.replica, rank, step.words)
        request = StopShard(replica=step.replica, rank=rank, reason=step.words)
        try:
            async with self._slots:
                await self._agents.ask(node, request, term=term)
        except NotFound as error:
            self._fleet.shards.unknown_there(node, step.replica, rank)
            return error.message
        except LlmgwError as error:
            return error.message
        return None

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
