"""The start of `llmgw gateway`: what it needs of the machine, and the signals that it obeys.

TERM and INT end it in order, a second one at once. HUP restarts the workers, one after the other,
without an interruption; one with a file of endpoints reads that again instead.
"""

import asyncio
import fcntl
import os
import random
import resource
import signal
from contextlib import suppress
from pathlib import Path

import uvloop

from llmgw.base.clock import SystemClock
from llmgw.base.errors import EXIT_OK, Conflict
from llmgw.base.log import setup
from llmgw.base.places import Places, private_dir
from llmgw.base.system import SystemFiles
from llmgw.gateway.alone import FileTable, NoCluster
from llmgw.gateway.config import GatewayServiceConfig, check_config
from llmgw.gateway.membership import beside, enter
from llmgw.gateway.metrics_page import MetricsPage
from llmgw.gateway.service import GatewayService
from llmgw.gateway.sockets import bind_all


def run(config: GatewayServiceConfig, *, join: str | None = None) -> int:
    """Run a gateway in the foreground until it is told to stop; return its exit code.

    Args:
        config: its own settings.
        join: a one-time token to join with first.

    Raises:
        LlmgwError: it cannot start; one line says why.
    """
    check_config(config)
    setup("gateway", level=config.log_level)
    root = os.geteuid() == 0
    state = Places.find(
        "gateway",
        environ=os.environ,
        root=root,
        state=None if config.state_dir is None else Path(config.state_dir),
    ).state
    if join is None and config.endpoints is None:
        server = Places.find("server", environ=os.environ, root=root).state
        config = beside(config, state, server)
    _take_descriptors()
    lock = _lock(private_dir(state))
    try:
        return uvloop.run(_serve(config, state, join))
    finally:
        os.close(lock)


async def _serve(config: GatewayServiceConfig, state: Path, join: str | None) -> int:
    clock = SystemClock()
    alone: FileTable | None = None
    if config.endpoints is None:
        membership = await enter(config, state, join)
    else:
        alone, membership = FileTable(Path(config.endpoints), clock), NoCluster("gateway")
    listeners = bind_all(config.listen, config.workers)
    files, rng = SystemFiles(), random.Random()
    service = GatewayService(config, state, membership, listeners, clock, files, rng, alone)
    loop = asyncio.get_running_loop()
    for signal_ in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_, service.stop)
    if alone is None:
        loop.add_signal_handler(signal.SIGHUP, service.restart_workers)
        await service.run()
        return EXIT_OK
    loop.add_signal_handler(signal.SIGHUP, alone.reload)
    async with MetricsPage(config.metrics, service.metrics):
        await service.run()
    return EXIT_OK


def _take_descriptors() -> None:
    """Allow as many open files as this user may have: two for each request that runs."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _lock(state: Path) -> int:
    """Take the state directory for this process alone; the kernel lets go when it ends."""
    fd = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise Conflict(
            f"{state}: another gateway uses this state directory",
            hint="stop it, or give this one its own --state-dir",
        ) from error
    return fd
