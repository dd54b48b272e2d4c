"""`llmgw agent`: what happens before an agent runs, and how it ends."""

import asyncio
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import uvloop

import llmgw
from llmgw.base import log
from llmgw.base.clock import Clock, SystemClock
from llmgw.base.errors import EXIT_OK, NotFound, Refused, Unreachable, Unreadable, Usage
from llmgw.base.log import LogRing
from llmgw.base.places import Places, private_dir, usable_dir
from llmgw.base.system import SystemFiles
from llmgw.base.units import show_seconds
from llmgw.link.enrol import Own, TokenText, own_certificate
from llmgw.link.enrol import join as join_cluster
from llmgw.link.identity import NODE
from llmgw.link.tls import files_in
from llmgw.model.node import NodeWarning
from llmgw_agent.assembly import Agent, Surroundings, assemble
from llmgw_agent.config import AgentConfig, check_config, check_node
from llmgw_agent.host.address import disagreement, own_address
from llmgw_agent.host.lock import only_one
from llmgw_agent.host.patience import done_within
from llmgw_agent.host.world import this_world
from llmgw_agent.remembered import Remembered
from llmgw_agent.sources import Directories

logger = log.get(__name__)

_NO_ROUTE_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class Start:
    """What an agent begins with. Directories are there and locked."""

    config: AgentConfig
    directories: Directories
    ring: LogRing
    clock: Clock
    environ: Mapping[str, str]
    hostname: str


def run(config: AgentConfig, *, join: str | None = None) -> int:
    """Run the agent of this node until SIGTERM or SIGINT; return the exit code.

    Args:
        config: its own file, variables and flags.
        join: a one-time token, for a machine that has no certificate yet.

    Raises:
        LlmgwError: why it could not start, in words.
    """
    check_config(config)
    # The one place of this process that looks at its environment: it is a process's top.
    environ = dict(os.environ)
    directories = _directories(config, environ)
    lock = only_one(directories.state / "agent.lock", "agent")
    ring = LogRing()
    log.setup("agent", level=config.log_level, ring=ring)
    start = Start(config, directories, ring, SystemClock(), environ, socket.gethostname())
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(start, join))
    finally:
        lock.release()
    return EXIT_OK


def directories_of(config: AgentConfig, places: Places) -> Directories:
    """Return where an agent's directories are, whether they are there or not."""
    return Directories(
        state=places.state,
        weights=Path(config.weights_dir or places.weights).absolute(),
        engines=Path(config.engines_dir or places.engines).absolute(),
    )


def _directories(config: AgentConfig, environ: Mapping[str, str]) -> Directories:
    """Return the agent's directories, made where they are missing.

    An operator's own (`model_dirs`) are only read, so they are not among them.

    Raises:
        Refused: one can't be made or used by this user.
    """
    state = None if config.state_dir is None else Path(config.state_dir).absolute()
    places = Places.find("agent", environ=environ, root=os.geteuid() == 0, state=state)
    private_dir(places.state)
    directories = directories_of(config, places)
    for path in (directories.weights, directories.engines):
        usable_dir(path)
    return directories


async def _serve(start: Start, join: str | None) -> None:
    stopping = asyncio.Event()
    agent: Agent | None = None

    def stop() -> None:
        stopping.set()
        if agent is not None:
            agent.stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    own = await certificate(start, join)
    remembered = Remembered(
        start.directories.state / "cluster.json", own.identity.cluster, SystemFiles()
    )
    if join is not None and start.config.control_planes:
        remembered.take_control_planes(start.config.control_planes)
    if start.config.node is not None:
        remembered.choose_name(start.config.node)
    address = await _address(start, remembered, stopping)
    if address is None:
        return
    agent = assemble(
        Surroundings(
            config=start.config,
            directories=start.directories,
            own=own,
            remembered=remembered,
            address=address,
            ring=start.ring,
            world=this_world(start.environ),
            environ=start.environ,
            warnings=(
                *named_otherwise(start.hostname, own.identity.id, remembered.chosen_name),
                *await _reached_otherwise(start),
            ),
        )
    )
    identity = own.identity
    logger.info(
        "agent starts", node=identity.id, cluster=identity.cluster, version=llmgw.__version__
    )
    await agent.run()
    logger.info("agent ends, engines go on", node=identity.id)


async def certificate(start: Start, join: str | None) -> Own:
    """Return this node's certificate, got with a one-time token where there is none that serves.

    Raises:
        Refused: it ended, or the token is refused.
        Unreadable: it is damaged.
        Usage: it is for another node, or a token was given and no address.
        NotFound: there is none and no token.
    """
    directory, wanted = start.directories.state, start.config.node
    try:
        own = own_certificate(files_in(directory))
        _check_certificate(own, wanted, start.clock.now())
    except (NotFound, Refused, Unreadable, Usage):
        if join is None:
            raise
    else:
        if join is not None:
            logger.info("joined already, the token is not used", node=own.identity.id)
        return own
    node = wanted or start.hostname.lower()
    check_node(node)
    token = TokenText.parse(join)
    addresses = start.config.control_planes
    if not addresses:
        raise Usage("--join needs a control plane's address", hint="add --server HOST:7442")
    return await _join_one_of(addresses, token, directory, node)


def _check_certificate(own: Own, wanted: str | None, now: float) -> None:
    identity = own.identity
    again = f"make a token: llmgw ctl node token {wanted or identity.id}; start with --join TOKEN"
    if identity.role != NODE:
        raise Usage(f"{own.files.certificate}: is for {identity}, not for a node", hint=again)
    if wanted is not None and identity.id != wanted:
        raise Usage(f"{own.files.certificate}: is for {identity}, not for {wanted}", hint=again)
    if identity.ends <= now:
        ago = show_seconds(now - identity.ends)
        raise Refused(f"the certificate of {identity} ended {ago} ago", hint=again)


async def _join_one_of(
    addresses: tuple[str, ...], token: TokenText, directory: Path, node: str
) -> Own:
    """Join through the first control plane that answers."""
    unreachable: Unreachable | None = None
    for address in addresses:
        try:
            own = await join_cluster(address, token, directory, role=NODE, subject=node)
        except Unreachable as error:
            unreachable = error
            continue
        logger.info("joined", node=node, cluster=own.identity.cluster, control_plane=address)
        return own
    raise unreachable or Unreachable("no control plane answers")


async def _address(start: Start, remembered: Remembered, stopping: asyncio.Event) -> str | None:
    """Return where this node's engines are reached; None when it was told to stop meanwhile.

    A machine that boots may have no route yet: the address of the last time is used then, and
    without one there is nothing to do but to wait.
    """
    control_planes = (*start.config.control_planes, *remembered.control_planes)
    if not control_planes:
        raise Usage(
            "no control plane's address is known",
            hint="write control_planes in the agent's file, or start with --server HOST:7442",
        )
    if start.config.address is not None:
        return start.config.address
    told = False
    stopped = asyncio.ensure_future(stopping.wait())
    while not stopping.is_set():
        for control_plane in control_planes:
            found = await own_address(control_plane, start.clock)
            if found is not None:
                remembered.take_address(found)
                return found
        if remembered.address is not None:
            return remembered.address
        if not told:
            logger.warning("no route to a control plane yet", control_planes=control_planes)
            told = True
        await done_within(start.clock, stopped, _NO_ROUTE_PAUSE)
    return None


def named_otherwise(hostname: str, node: str, chosen: str | None) -> tuple[NodeWarning, ...]:
    """Return the name that is signed when it disagrees with the one that is found.

    A name that a person chose, now or at an earlier start, is meant to disagree.
    """
    hostname = hostname.lower()
    if node in {hostname, chosen}:
        return ()
    words = f"its certificate names it {node}, its host name is {hostname} now"
    return (NodeWarning(subject="node", words=f"{words}; meant so: start once with --node {node}"),)


async def _reached_otherwise(start: Start) -> tuple[NodeWarning, ...]:
    """Return the own address that is written when it disagrees with the one that is found."""
    written = start.config.address
    if written is None or not start.config.control_planes:
        return ()
    control_plane = start.config.control_planes[0]
    found = await own_address(control_plane, start.clock)
    warning = disagreement(written, found, control_plane)
    return () if warning is None else (warning,)
