"""The control plane as a service: composition root, sockets, signals, an end in order."""

import asyncio
import contextlib
import gc
import importlib
import os
import random
import resource
import secrets
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvloop

from llmgw import __version__
from llmgw.base import log
from llmgw.base.address import host_and_port, joined
from llmgw.base.clock import SystemClock
from llmgw.base.errors import EXIT_FAILED, EXIT_OK, LlmgwError, Usage
from llmgw.base.periodic import Periodic
from llmgw.base.system import SystemFiles
from llmgw.base.world import Files
from llmgw.control.api.app import build
from llmgw.control.api.serve import Running
from llmgw.control.api.serve import serve as serve_admin
from llmgw.control.config import ServerConfig, check_config
from llmgw.control.home import Home, OwnCertificates
from llmgw.control.ownaddresses import WILDCARDS, host_name, own_addresses
from llmgw.control.plane import Plane
from llmgw.control.tasks.certificates import RenewOwn
from llmgw.control.world import World
from llmgw.link.server import LinkServer
from llmgw.link.tls import files_in, server_context
from llmgw.model.record import Record
from llmgw.pki.authority import GATEWAY, SERVER
from llmgw.store.sqlite import SqliteStore

logger = log.get(__name__)

FIRST_MESSAGE = 10.0
"""Seconds within which a peer has to say who it is."""

BACK_AFTER = 1.0
"""Seconds after which the first agent may return when this control plane ends on purpose."""

OPEN_FILES = 65_536
"""One agent is one descriptor; the usual soft limit is 1024."""


class Ready(Record, frozen=True, kw_only=True):
    """What `--print-ready` prints, as one JSON line."""

    admin: str
    """`http://host:port`."""
    link: str
    """`host:port`."""
    context: str | None
    """The command line's context that was written; None: none was."""
    state: str
    pid: int


@dataclass(frozen=True, slots=True)
class Machine:
    """What of the machine a control plane is started on."""

    world: World
    files: Files
    environ: Mapping[str, str]
    root: bool
    hostname: str


def this_machine() -> Machine:
    """Return the machine that this process runs on."""
    world = World(
        clock=SystemClock(),
        rng=random.Random(secrets.randbits(64)),
        entropy=secrets.token_bytes,
    )
    return Machine(
        world=world,
        files=SystemFiles(),
        environ=dict(os.environ),
        root=os.geteuid() == 0,
        hostname=host_name(),
    )


class Server:
    """One control plane with its sockets: `start`, `wait`, `stop`.

    Args:
        config: how it starts.
        machine: where.
    """

    def __init__(self, config: ServerConfig, machine: Machine) -> None:
        check_config(config)
        self._config = config
        self._machine = machine
        self._clock = machine.world.clock
        self._ending = asyncio.Event()
        self._admin: Running | None = None
        self._link: LinkServer | None = None
        self._passes: asyncio.Task[None] | None = None
        self._home = Home.find(config.state_dir, environ=machine.environ, root=machine.root)
        authority, self._new = self._home.load_authority(machine.files, self._clock.now())
        self._link_port = host_and_port(config.link, "link", listening=True)[1]
        self.plane = Plane(
            store=SqliteStore(self._home.store, version=__version__),
            authority=authority,
            world=machine.world,
            server_id=config.id or machine.hostname,
            version=__version__,
            addresses=self._reached_at,
        )

    async def start(self) -> Ready:
        """Take the store, listen, and begin to work; on an error nothing is left behind.

        Raises:
            Refused: another control plane holds the store, or a newer llmgw wrote it.
            Usage: an address can't be listened on.
        """
        try:
            await self.plane.open()
        except BaseException:
            await self.plane.store.close()
            raise
        try:
            return await self._start()
        except BaseException:
            await self.stop("it could not start")
            raise

    async def wait(self) -> None:
        """Return when the end was asked for; raise when something ended by itself."""
        assert self._admin is not None  # noqa: S101 - started before
        assert self._passes is not None  # noqa: S101 - started before
        ending = asyncio.ensure_future(self._ending.wait())
        admin = asyncio.ensure_future(self._admin.wait())
        try:
            await asyncio.wait({ending, admin, self._passes}, return_when=asyncio.FIRST_COMPLETED)
            for task in (self._passes, admin):
                if task.done() and not self._ending.is_set():
                    task.result()
                    raise LlmgwError("a part of the control plane ended by itself")
        finally:
            for waiter in (ending, admin):
                waiter.cancel()
            await asyncio.gather(ending, admin, return_exceptions=True)

    def end(self) -> None:
        """Ask for an end in order."""
        self._ending.set()

    async def stop(self, reason: str) -> None:
        """End in order: decide nothing more, answer nobody more, say goodbye, keep what is left."""
        logger.info("stopping", reason=reason)
        self._ending.set()
        self.plane.leadership.resign()
        if self._admin is not None:
            await self._admin.stop()
        if self._link is not None:
            await self._link.stop(reason, BACK_AFTER)
        if self._passes is not None:
            self._passes.cancel()
            await asyncio.gather(self._passes, return_exceptions=True)
        await self.plane.close()

    async def _start(self) -> Ready:
        home, plane, files = self._home, self.plane, self._machine.files
        await home.load_admin_token(plane.tokens, files, self._machine.world.entropy)
        own = OwnCertificates(plane.certificates, files)
        covers = self._covered()
        now = self._clock.now()
        await own.see_to(home.server, SERVER, plane.server_id, now=now, addresses=covers, anew=True)
        await own.see_to(home.gateway, GATEWAY, plane.server_id, now=now)
        context = server_context(files_in(home.server))
        renew = RenewOwn(
            own, home, context, clock=self._clock, server_id=plane.server_id, addresses=covers
        )
        plane.passes["certificates"] = Periodic(
            "certificates", renew.period, renew.run, self._clock
        )
        self._link = LinkServer(
            context,
            on_agent=plane.agents.on_agent,
            on_gateway=plane.gateways.on_gateway,
            on_join=plane.joining,
            clock=self._clock,
            silence=FIRST_MESSAGE,
            denied=plane.certificates.denied,
        )
        await self._listen(self._link)
        self._passes = asyncio.create_task(plane.run(), name="passes")
        return self._ready()

    async def _listen(self, link: LinkServer) -> None:
        host, port = host_and_port(self._config.link, "link", listening=True)
        try:
            self._link_port = await link.start(host, port)
        except LlmgwError as error:
            hint = f"{error.hint or 'it has to be this machine'}; choose another with --link"
            raise Usage(f"agents can't connect: {error.message}", hint=hint) from error
        host, port = host_and_port(self._config.admin, "admin", listening=True)
        try:
            self._admin = await serve_admin(build(self.plane), host, port)
        except LlmgwError as error:
            raise Usage(error.message, hint=error.hint) from error

    def _ready(self) -> Ready:
        assert self._admin is not None  # noqa: S101 - started just now
        link_host, _ = host_and_port(self._config.link, "link", listening=True)
        admin_host, _ = host_and_port(self._config.admin, "admin", listening=True)
        reached = "127.0.0.1" if admin_host in WILDCARDS else admin_host
        admin = f"http://{joined(reached, self._admin.port)}"
        reached = "127.0.0.1" if link_host in WILDCARDS else link_host
        return Ready(
            admin=admin,
            link=joined(reached, self._link_port),
            context=self._save_context(admin),
            state=str(self._home.state),
            pid=os.getpid(),
        )

    def _save_context(self, admin: str) -> str | None:
        """Write the command line's context of a new cluster; a file that can't be is no reason."""
        name = self._config.context
        if not self._new or name is None:
            return None
        contexts = importlib.import_module("llmgw.client.contexts")
        file: Path = contexts.config_path(self._machine.environ)
        try:
            contexts.save(file, name, admin, self._home.admin_token)
        except (LlmgwError, OSError) as error:
            logger.warning("the context was not written", file=str(file), error=str(error))
            return None
        logger.info("a new cluster", state=str(self._home.state), context=name, contexts=str(file))
        return name

    def _covered(self) -> tuple[str, ...]:
        """Return what this control plane's certificate covers."""
        host, _ = host_and_port(self._config.link, "link", listening=True)
        found = own_addresses(self._machine.files, self._machine.hostname)
        named = (*self._config.addresses, *found, *(() if host in WILDCARDS else (host,)))
        return tuple(dict.fromkeys(named))

    def _reached_at(self) -> tuple[str, ...]:
        """Return where agents reach this control plane; empty: where they do already."""
        host, _ = host_and_port(self._config.link, "link", listening=True)
        named = self._config.addresses or (() if host in WILDCARDS else (host,))
        return tuple(joined(address, self._link_port) for address in named)


async def serve(config: ServerConfig, machine: Machine) -> int:
    """Run a control plane until a signal asks for its end; return the exit code."""
    server = Server(config, machine)
    ready = await server.start()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.end)
    _say_ready(config, ready)
    # What lives now lives to the end: a full collection need not look at it again.
    gc.collect()
    gc.freeze()
    reason = "the control plane was told to stop"
    try:
        await server.wait()
    except BaseException:
        reason = "the control plane failed"
        raise
    finally:
        await server.stop(reason)
    return EXIT_OK


def run(config: ServerConfig) -> int:
    """Run a control plane in the foreground; return the exit code.

    Raises:
        LlmgwError: it could not start; in one line, with what to do.
    """
    check_config(config)
    log.setup("server", level=config.log_level)
    _raise_open_files()
    try:
        return uvloop.run(serve(config, this_machine()))
    except ExceptionGroup as group:
        logger.error("the control plane failed", exc_info=group)
        return EXIT_FAILED


def _say_ready(config: ServerConfig, ready: Ready) -> None:
    logger.info("ready", admin=ready.admin, link=ready.link, state=ready.state)
    line = msgspec.json.encode(ready) + b"\n"
    if config.print_ready:
        sys.stdout.write(line.decode())
        sys.stdout.flush()
    if config.ready_fd is not None:
        with contextlib.suppress(OSError), os.fdopen(config.ready_fd, "wb") as out:
            out.write(line)


def _raise_open_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
