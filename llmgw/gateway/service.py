"""`llmgw gateway`: the parent of the workers, and the only one that speaks to a control plane."""

import asyncio
import fcntl
import os
import random
import resource
import secrets
import signal
import socket
from collections import Counter
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import msgspec
import uvloop

import llmgw
from llmgw.base.address import host_and_port
from llmgw.base.backoff import Backoff
from llmgw.base.clock import Clock, SystemClock
from llmgw.base.errors import EXIT_OK, Conflict, NotFound
from llmgw.base.log import get, setup
from llmgw.base.periodic import Periodic
from llmgw.base.places import Places, private_dir, read_private
from llmgw.base.system import SystemFiles
from llmgw.base.world import Files
from llmgw.gateway.cells import Cells, Columns, create
from llmgw.gateway.config import GatewayServiceConfig, check_config
from llmgw.gateway.frames import Counted, Down, FromWorker, TableFrame, Took, Waiting
from llmgw.gateway.journal import UsageJournal
from llmgw.gateway.membership import Membership, beside, enter
from llmgw.gateway.places import Place, send_to_all
from llmgw.gateway.reach import Reach
from llmgw.gateway.sockets import bind_all
from llmgw.gateway.table import Table, TableBook, decode_table, encode_table, whole
from llmgw.gateway.uplink import Uplink
from llmgw.link.dial import Dialer
from llmgw.model.gateway import (
    LOADS,
    REACHED,
    GatewayRegister,
    LoadReport,
    ModelQueue,
    ReplicaLoad,
    TrafficReport,
)

log = get(__name__)

COUNTS_PERIOD = 0.5
"""Seconds between two writings of usage; with a worker's own period that is what a kill costs."""
TABLE_PERIOD = 1.0
RECONNECT = Backoff(first=0.5, most=10.0)
SILENCE = 16.0
"""Seconds without a message after which a control plane is dead, until it says how often it is."""
GOODBYE = 6.0
_TABLE = "table"


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
    if join is None:
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
    membership = await enter(config, state, join)
    listeners = bind_all(config.listen, config.workers)
    service = GatewayService(config, state, membership, listeners, clock, SystemFiles())
    loop = asyncio.get_running_loop()
    for signal_ in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_, service.stop)
    await service.run()
    return EXIT_OK


class GatewayService:
    """The parent: places, table, journal, uplink.

    It is not on the path of a request. Killed, it takes its workers with it; its successor serves
    from the table on disk, and tells the usage that the journal kept.
    """

    def __init__(
        self,
        config: GatewayServiceConfig,
        state: Path,
        membership: Membership,
        listeners: list[socket.socket],
        clock: Clock,
        files: Files,
    ) -> None:
        self._config = config
        self._clock = clock
        self._files = files
        self._membership = membership
        self._table_path = state / _TABLE
        self._boot = secrets.token_hex(8)
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._book = TableBook()
        self._reach = Reach()
        self._kept: Table | None = None
        self._traffic_changed: set[int] = set()
        self._port = int(listeners[0].getsockname()[1])
        self._rng = random.Random()
        self._counts_pass = Periodic("usage", lambda: COUNTS_PERIOD, self._pass_counts, clock)
        self._table_pass = Periodic("table", lambda: TABLE_PERIOD, self._keep_table, clock)
        cells = create(len(listeners))
        self._cells = Cells.attach(cells, 0)
        self._columns = Columns(self._cells.load)
        self._journal = UsageJournal(state / "usage", files, membership.id, self._boot)
        self._uplink = self._new_uplink()
        self._dialer = self._new_dialer()
        self.places = [self._new_place(*place, cells) for place in enumerate(listeners)]

    def _new_uplink(self) -> Uplink:
        return Uplink(
            self._membership,
            self._book,
            self._journal,
            self._register,
            self._tell,
            configured=self._config.control_planes,
            clock=self._clock,
        )

    def _new_dialer(self) -> Dialer:
        return Dialer(
            self._uplink.addresses,
            self._membership.context,
            "gateway",
            clock=self._clock,
            rng=self._rng,
            backoff=RECONNECT,
            silence=SILENCE,
        )

    def _new_place(self, number: int, listener: socket.socket, cells: int) -> Place:
        return Place(
            number,
            listener,
            cells,
            log_level=self._config.log_level,
            table=self._whole,
            on_message=self._heard,
            on_end=self._ended,
            clock=self._clock,
            rng=self._rng,
        )

    @property
    def url(self) -> str:
        """Return where users reach it."""
        if self._config.url is not None:
            return self._config.url
        host, _ = host_and_port(self._config.listen, "listen", listening=True)
        if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
            host = _own_address(self._config.control_planes) or socket.gethostname()
        return f"http://[{host}]:{self._port}" if ":" in host else f"http://{host}:{self._port}"

    def stop(self) -> None:
        """Drain and end; called again, end without waiting for replies."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    async def run(self) -> None:
        """Serve until `stop`."""
        self._restore()
        log.info("gateway", id=self._membership.id, url=self.url, workers=len(self.places))
        counts, table = self._counts_pass, self._table_pass
        dialing = asyncio.ensure_future(self._dial())
        async with asyncio.TaskGroup() as group:
            for place in self.places:
                group.create_task(place.run())
            passes = [group.create_task(one.run_forever()) for one in (counts, table)]
            await self._stopping.wait()
            await self._drain()
            for task in passes:
                task.cancel()
        await counts.run_once()
        await table.run_once()
        self._dialer.stop()
        await asyncio.wait({dialing}, timeout=GOODBYE)

    async def _dial(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._dialer.run(self._uplink.session)
            except Exception:
                # Whatever is wrong with the link: requests are served, from the last table.
                log.exception("the link to the control plane failed and begins anew")
                await self._clock.sleep(RECONNECT.most)

    async def _drain(self) -> None:
        log.info("stopping", seconds=self._config.drain)
        hurrying = asyncio.ensure_future(self._kill_on_hurry())
        await asyncio.gather(*(place.drain(self._config.drain) for place in self.places))
        hurrying.cancel()

    async def _kill_on_hurry(self) -> None:
        await self._hurry.wait()
        for place in self.places:
            place.kill()

    # The table.

    def _restore(self) -> None:
        """Take the table that the last start kept, so that known keys are served at once."""
        try:
            self._kept = decode_table(read_private(self._table_path))
        except NotFound:
            return
        except msgspec.DecodeError as error:
            log.warning("the kept table can't be read", file=str(self._table_path), why=str(error))
            return
        self._book.restore(self._kept)

    def _whole(self) -> TableFrame:
        return self._addressed(whole(self._book.table))

    def _tell(self, frame: TableFrame) -> None:
        replicas = {
            one.replica for route in self._book.table.routes.values() for one in route.endpoints
        }
        self._columns.keep(replicas)
        self._reach.changed(self._book.position)
        if self._kept is None:
            self._table_pass.wake()  # a gateway that is killed soon has a table all the same
        send_to_all(self.places, self._addressed(frame))
        self._tell_reached()

    def _tell_reached(self) -> None:
        """Tell the control plane how far the tables of all workers are, when that is news."""
        if not self._uplink.listened_to:
            return  # it stays news until there is somebody to tell
        position = self._reach.news(place.taken for place in self.places)
        if position is not None:
            self._uplink.reached(position)

    def _addressed(self, frame: TableFrame) -> TableFrame:
        """Add to a frame what the table itself does not say."""
        columns = {
            one.replica: self._columns.of(one.replica)
            for route in frame.routes
            for one in route.endpoints
        }
        return msgspec.structs.replace(
            frame,
            columns=columns,
            received=self._book.received,
            current=self._uplink.current,
            number=self._reach.number,
        )

    async def _keep_table(self) -> str:
        if self._book.table is self._kept or not self._book.received:
            return "the table on disk is the newest"
        self._files.write(self._table_path, encode_table(self._book.table))
        self._kept = self._book.table
        return "the table on disk is the newest"

    # What workers say.

    def _heard(self, place: Place, message: FromWorker) -> None:
        match message:
            case Counted(totals=totals, traffic=traffic):
                self._journal.count(place.number, totals)
                if traffic:
                    self._traffic_changed.add(place.number)
            case Took():
                self._tell_reached()
            case Waiting():
                self._tell_loads()
            case Down(endpoint=endpoint):
                self._uplink.engine_down(endpoint)
            case _:
                pass

    def _ended(self, place: Place) -> None:
        self._cells.clear_row(place.number)
        self._tell_reached()  # its successor begins with the whole table

    async def _pass_counts(self) -> str:
        self._tell_reached()
        try:
            self._journal.save()
        finally:
            self._uplink.send_counts(self._take_traffic())
            self._tell_loads()
        return "usage is on disk"

    def _tell_loads(self) -> None:
        """Tell what is in flight now, when it is not what was told last."""
        loads = sorted(self._columns.in_flight().items())
        waiting = sum((Counter(place.waiting) for place in self.places), Counter())
        self._uplink.load(
            LoadReport(
                gateway=self._membership.id,
                replicas=tuple(ReplicaLoad(replica=name, in_flight=count) for name, count in loads),
                queues=tuple(ModelQueue(model=m, queued=n) for m, n in sorted(waiting.items())),
            )
        )

    def _take_traffic(self) -> list[TrafficReport]:
        """Return what is news of the workers' traffic; it stays news while nobody listens."""
        if not self._uplink.listened_to:
            return []
        changed, self._traffic_changed = self._traffic_changed, set()
        return [self._traffic(self.places[number]) for number in changed]

    def _traffic(self, place: Place) -> TrafficReport:
        return TrafficReport(
            gateway=self._membership.id,
            boot=self._boot,
            worker=place.number,
            models=tuple(place.traffic.values()),
        )

    def _register(self) -> GatewayRegister:
        # A new stream may be to a control plane that was started anew and knows no traffic.
        self._traffic_changed = {place.number for place in self.places if place.traffic}
        return GatewayRegister(
            gateway=self._membership.id,
            version=llmgw.__version__,
            boot=self._boot,
            workers=len(self.places),
            url=self.url,
            features=(REACHED, LOADS),
        )


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


def _own_address(control_planes: tuple[str, ...]) -> str | None:
    """Return the source address of the route to a control plane; nothing is sent.

    None beside a control plane that is reached over loopback: users are elsewhere.
    """
    for control_plane in control_planes:
        host, port = host_and_port(control_plane, "control_planes")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port))
            address = str(probe.getsockname()[0])
            if not ip_address(address).is_loopback:
                return address
    return None
