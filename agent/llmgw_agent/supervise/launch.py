"""Starting an engine's process, written down before and after."""

import errno
from collections.abc import Collection
from pathlib import Path

from llmgw.base.errors import NotFound, TimedOut
from llmgw.base.log import get
from llmgw.base.world import Child
from llmgw.model.shard import NO_ENGINE, PORT_TAKEN
from llmgw_agent.engines.adapter import Launch
from llmgw_agent.supervise.book import KeptProcess
from llmgw_agent.supervise.environment import (
    engine_environment,
    network_environment,
    shard_name,
)
from llmgw_agent.supervise.means import Means, ShardFailed
from llmgw_agent.supervise.ports import choose_port
from llmgw_agent.supervise.prepare import Prepared
from llmgw_agent.supervise.shard import Shard

log = get(__name__)

_NO_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
_LOOKS = 50
_LOOK_EVERY = 0.02


async def launch(shard: Shard, prepared: Prepared, means: Means, avoid: Collection[int]) -> Child:
    """Start a shard's engine on a free port.

    The record is written before the process is there and completed when it is: whenever this agent
    dies between, the next one finds a description of what runs.

    Args:
        shard: what is started.
        prepared: what it is started with.
        means: the world.
        avoid: ports that turned out to be taken.

    Raises:
        ShardFailed: there is no free port, or the program can't be started.
    """
    taken = means.ports_held() | set(avoid)
    port = choose_port(means.ports, shard.name, taken, means.port_free)
    if port is None:
        held = f"ports {means.ports.first}-{means.ports.last} of {means.host}"
        raise ShardFailed(PORT_TAKEN, f"{held} are all taken")
    argv, environment = _command(shard, prepared, means, port)
    shard.address, shard.port, shard.argv = means.address, port, argv
    shard.launched = means.clock.now()
    shard.pid, shard.process, shard.term_sent = None, None, False
    try:
        means.book.save(shard.kept())
        shard.log.begin()
        child = await means.processes.start(
            argv, env=environment, log=shard.log.path, cwd=Path("/"), user=means.user
        )
    except NotFound as error:
        raise ShardFailed(NO_ENGINE, error.message) from error
    except OSError as error:
        raise ShardFailed(None, f"the engine can't be started: {_why(error, means)}") from error
    await note_process(shard, means, child.pid)
    shard.log.note(f"started pid {child.pid}, port {shard.port}")
    return child


def save(shard: Shard, means: Means) -> None:
    """Write a shard down; a full disk is logged and stops nothing that runs."""
    try:
        means.book.save(shard.kept())
    except OSError as error:
        log.warning("a shard's record can't be written", shard=shard.name, error=str(error))


async def note_process(shard: Shard, means: Means, pid: int) -> None:
    """Write down which process a shard is, by pid, start time and command line.

    A process that is just being started has no command line for a moment; kept like that, the next
    agent would not know it again.
    """
    shard.pid = pid
    shard.process = await _process(shard, means, pid) or shard.process
    save(shard, means)


async def _process(shard: Shard, means: Means, pid: int) -> KeptProcess | None:
    """Return which process has that pid; None when there is none, or it shows no command line.

    Of one that hangs in the kernel the command line can't be read: it is what was asked for.
    """
    for _ in range(_LOOKS):
        try:
            seen = await means.processes.inspect(pid)
        except TimedOut:
            there = means.processes.look(pid)
            if there is None or not shard.argv:
                return None
            return KeptProcess(pid=pid, started=there.started, argv=tuple(shard.argv))
        if seen is None:
            return None
        if seen.argv:
            return KeptProcess(pid=seen.pid, started=seen.started, argv=seen.argv)
        await means.clock.sleep(_LOOK_EVERY)
    return None


def _why(error: OSError, means: Means) -> str:
    """Return what the system said; of a disk that takes nothing, which directory lies on it."""
    words = error.strerror or str(error)
    if error.errno in _NO_WRITING:
        return f"{means.state}: {words}"
    return f"{error.filename}: {words}" if error.filename else words


def _command(
    shard: Shard, prepared: Prepared, means: Means, port: int
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the command line and the whole environment."""
    spec = shard.spec
    command = prepared.adapter.command(
        Launch(
            spec=spec,
            program=prepared.program,
            host=means.host,
            port=port,
            weights=prepared.weights,
            key=shard.key,
            devices=prepared.devices,
            options=prepared.options,
        )
    )
    environment = engine_environment(
        _base(means),
        libraries=prepared.program.libraries,
        devices=spec.devices,
        shard=shard_name(means.cluster, means.node, spec.replica, spec.rank),
        state=means.state,
        own={**network_environment(spec), **command.env},
    )
    return command.argv, environment


def _base(means: Means) -> dict[str, str]:
    # The agent's home is no other user's.
    hidden = {"HOME"} if means.user is not None else set[str]()
    return {name: value for name, value in means.environ.items() if name not in hidden}
