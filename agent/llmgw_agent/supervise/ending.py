"""Ending a shard's processes, in steps, until they are seen to be gone."""

import signal

from llmgw.base.world import ProcessSeen
from llmgw.model.shard import NOT_STOPPED
from llmgw_agent.supervise.environment import SHARD, STATE, shard_name
from llmgw_agent.supervise.launch import save
from llmgw_agent.supervise.means import Means
from llmgw_agent.supervise.shard import Shard

KILL_LIMIT = 10.0
"""Seconds in which a killed group has to be gone."""

_POLL = 0.1


async def anything_left(shard: Shard, means: Means) -> bool:
    """Say whether any process of a shard is left, in its group or in one that it made."""
    return _group_left(shard, means) or bool(await _strays(shard, means))


async def end_processes(shard: Shard, means: Means, *, ask: bool, limit: float) -> None:
    """End everything of a shard; return only when it is gone.

    SIGTERM goes to the group once, whichever agent sent it: a second one makes llama-server abort.
    What can't be ended is told, holds what it holds, and is tried again for ever.

    Args:
        shard: whose processes.
        means: the world.
        ask: send SIGTERM and wait before SIGKILL.
        limit: seconds to wait after SIGTERM.
    """
    if ask and _group_left(shard, means):
        asked = shard.term_sent or _signal(shard, means, signal.SIGTERM)
        if asked and not shard.term_sent:
            shard.term_sent = True
            save(shard, means)
        if asked and await _gone_within(limit, shard, means):
            return
    while await anything_left(shard, means):
        signalled = await _kill(shard, means)
        if not signalled and await anything_left(shard, means):
            shard.admit(f"pid {shard.pid}: could not be signalled", NOT_STOPPED)
        if await _gone_within(KILL_LIMIT, shard, means):
            return
        if signalled:
            words = f"pid {shard.pid}: still there {KILL_LIMIT:g} s after SIGKILL"
            shard.admit(words, NOT_STOPPED)


async def _gone_within(seconds: float, shard: Shard, means: Means) -> bool:
    end = means.clock.monotonic() + seconds
    while await anything_left(shard, means):
        if means.clock.monotonic() >= end:
            return False
        await means.clock.sleep(_POLL)
    return True


async def _kill(shard: Shard, means: Means) -> bool:
    done = True
    if _group_left(shard, means):
        done = _signal(shard, means, signal.SIGKILL)
    for seen in await _strays(shard, means):
        done = means.processes.signal_group(seen.group, signal.SIGKILL) and done
    return done


def _signal(shard: Shard, means: Means, signal_: signal.Signals) -> bool:
    return shard.pid is not None and means.processes.signal_group(shard.pid, signal_)


def _group_left(shard: Shard, means: Means) -> bool:
    if shard.pid is None:
        return False
    leader, ours = means.processes.look(shard.pid), shard.process
    if leader is not None and ours is not None and leader.started != ours.started:
        # The pid is somebody else's now, which it can only be when our group is gone.
        return False
    return means.processes.group_alive(shard.pid)


async def _strays(shard: Shard, means: Means) -> tuple[ProcessSeen, ...]:
    """Return processes that the engine put into groups of their own."""
    spec = shard.spec
    name = shard_name(means.cluster, means.node, spec.replica, spec.rank)
    return tuple(
        seen
        for seen in await means.processes.with_environ(SHARD, name)
        if seen.environ.get(STATE) == means.state and seen.group != shard.pid
    )
