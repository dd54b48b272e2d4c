"""Mistakes, made on purpose: each patches the product for as long as a test needs it.

What finds them are the same invariants that every run is held to.
"""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from llmgw.control import replicas
from llmgw.control.fleet import Fleet
from llmgw.gateway.proxy.deadlines import Deadlines
from llmgw.model.node import LOST
from llmgw.model.shard import FAILED, READY, STOPPED, STOPPING, ShardStatus
from llmgw.plan import filling, giveway, reconcile
from llmgw.plan.records import Booking
from llmgw.store.interface import StoredNode
from llmgw_agent.commands import Commands
from llmgw_agent.core import AgentCore
from llmgw_agent.supervise import ending, life
from llmgw_agent.supervise.supervisor import Supervisor


@dataclass(frozen=True)
class Planted:
    """A mistake, and the path on which it is made."""

    make: Callable[[], AbstractContextManager[None]]
    path: str
    """In `coverage`: a run that did not take it could not have found the mistake."""


@contextmanager
def _patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def empty_report() -> AbstractContextManager[None]:
    """A restarted agent says in its first register that it runs nothing."""
    running = AgentCore.running

    def first_empty(core: AgentCore) -> tuple[ShardStatus, ...]:
        first = not hasattr(core, "reported")
        core.reported = True  # type: ignore[attr-defined]
        return () if first else running(core)

    return _patched(AgentCore, "running", first_empty)


def unknown_left_alive() -> AbstractContextManager[None]:
    """A starting agent leaves alone what no record describes."""
    return _patched(Supervisor, "_end", lambda _self, _one: None)


def verdict_copied() -> AbstractContextManager[None]:
    """The replicas of a lost node count as failed."""
    age = Fleet.age

    def aged(fleet: Fleet) -> Any:
        changed = age(fleet)
        for node in changed:
            seen = fleet._nodes[node.id]
            for status in tuple(seen.shards.values()) if node.liveness == LOST else ():
                if status.state == READY:
                    failed = msgspec.structs.replace(
                        status, state=FAILED, reason="its node is lost"
                    )
                    fleet.shards.report(seen, failed)
        return changed

    return _patched(Fleet, "age", aged)


def freed_too_early() -> AbstractContextManager[None]:
    """A shard is told as stopped when it was asked to end."""
    end = ending.end_processes

    async def told_first(shard: Any, means: Any, **how: Any) -> None:
        if shard.state == STOPPING:
            told = msgspec.structs.replace(shard.status(with_spec=False), state=STOPPED)
            shard._report(told)
        await end(shard, means, **how)

    return _patched(life, "end_processes", told_first)


def stale_leader_obeyed() -> AbstractContextManager[None]:
    """An agent does what an earlier leader says."""
    return _patched(Commands, "_stale", lambda _self, _term: None)


def two_starts() -> AbstractContextManager[None]:
    """A pass places what is missing twice."""
    meet: Any = filling.meet

    def twice(claim: Any, groups: Any, places: Any, give_up: Any) -> bool:
        meet(claim, groups, places, give_up)
        places.claimed.clear()
        return bool(meet(claim, groups, places, give_up))

    return _patched(filling, "meet", twice)


def drain_forgotten() -> AbstractContextManager[None]:
    """A control plane that begins to lead forgets which nodes are drained."""
    load = Fleet.load

    def without_wishes(fleet: Fleet, nodes: tuple[StoredNode, ...]) -> None:
        load(fleet, tuple(msgspec.structs.replace(node, wish=None) for node in nodes))

    return _patched(Fleet, "load", without_wishes)


def memory_twice() -> AbstractContextManager[None]:
    """What a replica reserves is given to another as well."""
    booking = replicas._booking

    def without_memory(status: ShardStatus, every_device: tuple[str, ...]) -> Booking:
        return msgspec.structs.replace(booking(status, every_device), memory_bytes=None)

    return _patched(replicas, "_booking", without_memory)


def drain_cut_short() -> AbstractContextManager[None]:
    """A replica that is given up is stopped with what it has begun."""
    return _patched(reconcile, "may_stop", lambda *_: "it was given up")


def waits_for_ever() -> AbstractContextManager[None]:
    """A gateway forgets every deadline: what it holds, and what an engine never answers."""
    return _patched(Deadlines, "look", lambda _self: None)


def rest_left_running() -> AbstractContextManager[None]:
    """What is left of a replica of several nodes runs on when a shard of it has failed."""
    return _patched(reconcile._Pass, "_stop_rest", lambda _self: None)


def priorities_forgotten() -> AbstractContextManager[None]:
    """Every other model is taken for one of a lower priority."""
    of_group = giveway._of_group

    def lowered(group: Any, found: Any, *more: Any, **named: Any) -> Iterator[Any]:
        below = msgspec.structs.replace(group.profile, priority=found.profile.priority - 1)
        other = dataclasses.replace(group, profile=below)
        for one in of_group(other, found, *more, **named):
            yield dataclasses.replace(one, group=group)

    return _patched(giveway, "_of_group", lowered)


PLANTED = {
    "empty report after a restart": Planted(empty_report, "adopted after a restart"),
    "unknown engine left alive": Planted(unknown_left_alive, "record lost under an engine"),
    "verdict copied onto replicas": Planted(verdict_copied, "node lost"),
    "device freed before its process is gone": Planted(freed_too_early, "shard told to stop"),
    "stale leader's command obeyed": Planted(stale_leader_obeyed, "command of an older term"),
    "two starts in one pass": Planted(two_starts, "shard told to start"),
    "drain that forgets": Planted(drain_forgotten, "leadership taken over"),
    "memory reserved twice": Planted(memory_twice, "shard told to start"),
    "drain cut short": Planted(drain_cut_short, "drained before its limit"),
    "request that waits for ever": Planted(waits_for_ever, "request reached an engine"),
    "rest of a replica left running": Planted(
        rest_left_running, "replica of several nodes started"
    ),
    "priorities forgotten": Planted(priorities_forgotten, "somebody gave way"),
}
