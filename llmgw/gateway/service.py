"""`llmgw gateway`: the parent of the workers, and the only one that speaks to a control plane."""

import asyncio
import random
import socket
from pathlib import Path

import msgspec

from llmgw.base.backoff import Backoff
from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound
from llmgw.base.log import get
from llmgw.base.periodic import Periodic
from llmgw.base.places import read_private
from llmgw.base.world import Files
from llmgw.gateway.admission.quota import LOOK
from llmgw.gateway.alone import FileTable
from llmgw.gateway.alone_page import alone_page
from llmgw.gateway.cells import Cells, Columns
from llmgw.gateway.config import GatewayServiceConfig
from llmgw.gateway.frames import (
    Counted,
    Down,
    Figures,
    Forgot,
    FromWorker,
    Identity,
    TableFrame,
    Told,
    Took,
    Waiting,
)
from llmgw.gateway.health_checks import PERIOD as CHECKS_PERIOD
from llmgw.gateway.health_checks import HealthChecks
from llmgw.gateway.inquiries import Inquiries
from llmgw.gateway.key_cells import KeyCells
from llmgw.gateway.keyfiles import KeyFiles
from llmgw.gateway.mapped import create
from llmgw.gateway.membership import Membership
from llmgw.gateway.places import Place, send_to_all
from llmgw.gateway.quota_book import QuotaBook
from llmgw.gateway.quotas import Quotas
from llmgw.gateway.reach import Reach
from llmgw.gateway.reports import load_report, register, traffic_report, workers_report
from llmgw.gateway.shown import Shown
from llmgw.gateway.slots import Slot
from llmgw.gateway.sockets import url_of
from llmgw.gateway.table import Table, TableBook, decode_table, encode_table, endpoints_of, whole
from llmgw.gateway.tls import PERIOD
from llmgw.gateway.uplink import Uplink
from llmgw.gateway.usage_kept import KeptUsage
from llmgw.link.dial import Dialer
from llmgw.model.gateway import GatewayRegister, Route, TrafficReport

log = get(__name__)

COUNTS_PERIOD = 0.5
"""Seconds between two writings of usage; with a worker's own period that is what a kill costs."""
TABLE_PERIOD = 1.0
RECONNECT = Backoff(first=0.5, most=10.0)
SILENCE = 16.0
"""Seconds without a message after which a control plane is dead, until it says how often it is."""
GOODBYE = 6.0
_TABLE = "table"


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
        rng: random.Random,
        alone: FileTable | None = None,
    ) -> None:
        self._config = config
        self._alone = alone
        self._clock = clock
        self._files = files
        self._membership = membership
        self._table_path = state / _TABLE
        self._rng = rng
        self._boot = f"{rng.getrandbits(64):016x}"
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._book = TableBook()
        self._reach = Reach()
        self._kept: Table | None = None
        self._traffic_changed: set[int] = set()
        self._port = int(listeners[0].getsockname()[1])
        self._shown = Shown(config, state, membership, self._show)
        self._certificate_pass = Periodic("certificate", lambda: PERIOD, self._shown.look, clock)
        self._counts_pass = Periodic("usage", lambda: COUNTS_PERIOD, self._pass_counts, clock)
        self._table_pass = Periodic("table", lambda: TABLE_PERIOD, self._keep_table, clock)
        self._quota_pass = Periodic("quotas", lambda: LOOK, self._look_at_quotas, clock)
        self._listeners = listeners
        cells = create(2 * len(listeners))
        self._cells = Cells.attach(cells, 0)
        self._columns = Columns(self._cells.load)
        self._key_files = KeyFiles()
        self._usage = KeptUsage(
            state, files, membership.id, self._boot, clock, alone=alone is not None
        )
        self._quotas = Quotas(KeyCells.attach(cells, 0), membership.id, clock)
        self._quota_book = QuotaBook(self._quotas, state / "quotas", files)
        self._uplink = self._new_uplink()
        self._inquiries = Inquiries(membership.id, self._uplink.tell_requests, clock)
        self._dialer = self._new_dialer()
        twice = enumerate((*listeners, *listeners))  # the second half are the slots' other places
        self.places = [self._new_place(*place, cells) for place in twice]
        self._restarting = asyncio.Event()
        self._checks = HealthChecks(self._keyed, self._tell_health, clock)
        self._checks_pass = Periodic(
            "endpoints", lambda: CHECKS_PERIOD, self._checks.run_once, clock
        )

    def _new_uplink(self) -> Uplink:
        return Uplink(
            self._membership,
            self._book,
            self._usage.journal,
            self._quotas,
            self._register,
            self._tell,
            configured=self._config.control_planes,
            clock=self._clock,
            on_loads=lambda told: send_to_all(self.places, Figures(told=told)),
            on_question=lambda question: self._inquiries.put(question, self.places),
            on_restart=self._restart_asked,
            shown=self._shown.of_cluster,
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
            identity=lambda: self._shown.identity,
            on_message=self._heard,
            on_end=self._ended,
            clock=self._clock,
            rng=self._rng,
        )

    @property
    def url(self) -> str:
        """Return where users reach it."""
        return self._config.url or url_of(self._config, self._port)

    def stop(self) -> None:
        """Drain and end; called again, end without waiting for replies."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    def restart_workers(self) -> None:
        """Replace all workers by new ones, one after the other; replies go on and none is lost."""
        self._restarting.set()

    def _restart_asked(self, actor: str) -> None:
        log.info("told to restart the workers", by=actor)
        self.restart_workers()

    async def run(self) -> None:
        """Serve until `stop`."""
        self._restore()
        count = len(self._listeners)
        log.info("gateway", id=self._membership.id, url=self.url, workers=count)
        counts, table, quotas = self._counts_pass, self._table_pass, self._quota_pass
        dialing = asyncio.ensure_future(self._dial())
        async with asyncio.TaskGroup() as group:
            slots = [
                Slot(listener, self.places[number::count], self._clock)
                for number, listener in enumerate(self._listeners)
            ]
            for slot in slots:
                group.create_task(slot.run())
            periodics = (counts, table, quotas, self._certificate_pass, self._checks_pass)
            passes = [group.create_task(one.run_forever()) for one in periodics]
            passes.append(group.create_task(self._restart_when_told(slots)))
            await self._stopping.wait()
            await self._drain(slots)
            for task in passes:
                task.cancel()
        await counts.run_once()
        await table.run_once()
        self._quota_book.save()
        self._dialer.stop()
        if self._alone is not None:
            dialing.cancel()
        await asyncio.wait({dialing}, timeout=GOODBYE)

    async def _dial(self) -> None:
        if self._alone is not None:
            await self._alone.follow(lambda table: self._tell(self._book.replace(table)))
        while not self._stopping.is_set():
            try:
                await self._dialer.run(self._uplink.session)
            except Exception:
                # Whatever is wrong with the link: requests are served, from the last table.
                log.exception("the link to the control plane failed and begins anew")
                await self._clock.sleep(RECONNECT.most)

    async def _restart_when_told(self, slots: list[Slot]) -> None:
        while True:
            await self._restarting.wait()
            self._restarting.clear()
            for number, slot in enumerate(slots):
                log.info("restarting a worker", slot=number, done=await slot.restart())

    async def _drain(self, slots: list[Slot]) -> None:
        log.info("stopping", seconds=self._config.drain)
        hurrying = asyncio.ensure_future(self._kill_on_hurry())
        await asyncio.gather(*(slot.drain(self._config.drain) for slot in slots))
        hurrying.cancel()

    async def _kill_on_hurry(self) -> None:
        await self._hurry.wait()
        for place in self.places:
            place.kill()

    # The certificate that users see.

    def _show(self, identity: Identity, first: bool) -> None:
        """Let new connections get a certificate; with the first one they are let in at all."""
        for place in self.places:
            if first:
                place.catch_up()
            else:
                place.send(identity)

    # The table.

    def _restore(self) -> None:
        """Take the table that the last start kept, so that known keys are served at once."""
        self._quota_book.restore()
        if self._alone is not None:
            self._kept = self._alone.table
            self._book.restore(self._alone.table)
            self._quotas.keep(self._book.table.keys)
            return
        try:
            self._kept = decode_table(read_private(self._table_path))
        except NotFound:
            return
        except msgspec.DecodeError as error:
            log.warning("the kept table can't be read", file=str(self._table_path), why=str(error))
            return
        self._book.restore(self._kept)
        self._quotas.keep(self._book.table.keys)

    def _whole(self) -> TableFrame | None:
        if self._shown.is_awaited:
            return None  # a worker listens once it has a table, and must not without TLS
        return self._addressed(whole(self._book.table))

    def _tell(self, frame: TableFrame) -> None:
        every = endpoints_of(self._book.table.routes.values())
        self._columns.keep({one.replica for one in every})
        if frame.keys or frame.gone_keys:
            self._quotas.keep(self._book.table.keys)
        self._usage.told(frame)
        self._reach.changed(self._book.position)
        if self._kept is None:
            self._table_pass.wake()  # a gateway that is killed soon has a table all the same
        if self._shown.of_cluster is not None and self._book.table.config is not None:
            self._shown.of_cluster.want(self._book.table.config.tls_names)
        if not self._shown.is_awaited:
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
        every = endpoints_of(frame.routes)
        return msgspec.structs.replace(
            frame,
            routes=self._checks.answering(self._key_files.with_keys(frame.routes)),
            columns={one.replica: self._columns.of(one.replica) for one in every},
            key_columns=self._quotas.columns(frame.keys),
            received=self._book.received,
            current=self._uplink.current or self._alone is not None,
            alone=self._alone is not None,
            keys_sure=self._uplink.keys_sure,
            number=self._reach.number,
        )

    def _keyed(self) -> tuple[Route, ...]:
        return self._key_files.with_keys(self._book.table.routes.values())

    def _tell_health(self, models: set[str]) -> None:
        """Tell workers the routes of models of which an endpoint began or ceased to answer."""
        routes = self._book.table.routes
        self._tell(TableFrame(routes=tuple(routes[one] for one in models if one in routes)))

    def metrics(self) -> str:
        """Return the page of metrics that a gateway without a control plane shows."""
        return alone_page(self._book.table, self.places, self._columns, self._checks, self._quotas)

    async def _keep_table(self) -> str:
        if self._alone or self._book.table is self._kept or not self._book.received:
            return "the table on disk is the newest"
        self._files.write(self._table_path, encode_table(self._book.table))
        self._kept = self._book.table
        return "the table on disk is the newest"

    async def _look_at_quotas(self) -> str:
        self._quotas.look()
        self._quota_book.save_if_due()
        return "the windows of keys' limits end now"

    # What workers say.

    def _heard(self, place: Place, message: FromWorker) -> None:
        match message:
            case Counted(totals=totals, traffic=traffic):
                self._usage.count(place.number, totals)
                if traffic:
                    self._traffic_changed.add(place.number)
            case Took():
                self._tell_reached()
            case Waiting():
                self._tell_loads()
            case Down(endpoint=endpoint):
                self._uplink.engine_down(endpoint)
            case Told():
                self._inquiries.told(place.number, message)
            case Forgot(totals=totals):
                self._usage.forgot(place, totals)
            case _:
                pass

    def _ended(self, place: Place) -> None:
        self._cells.clear_row(place.number)
        self._quotas.worker_ended(place.number)
        self._inquiries.ended(place.number)
        if place.traffic:
            self._traffic_changed.add(place.number)  # nothing of it is in flight any more
        self._tell_reached()  # its successor begins with the whole table

    async def _pass_counts(self) -> str:
        self._inquiries.look()
        self._tell_reached()
        self._usage.forget(self.places)
        try:
            self._usage.save()
        finally:
            self._uplink.send_counts(self._take_traffic())
            self._uplink.workers(workers_report(self._membership.id, self.places))
            self._tell_loads()
        return "usage is on disk"

    def _tell_loads(self) -> None:
        """Tell what is in flight now, when it is not what was told last."""
        in_flight = self._columns.in_flight()
        self._uplink.load(load_report(self._membership.id, in_flight, self.places))

    def _take_traffic(self) -> list[TrafficReport]:
        """Return what is news of the workers' traffic; it stays news while nobody listens."""
        if not self._uplink.listened_to:
            return []
        changed, self._traffic_changed = self._traffic_changed, set()
        places = (self.places[number] for number in changed)
        return [traffic_report(self._membership.id, self._boot, place) for place in places]

    def _register(self) -> GatewayRegister:
        # A new stream may be to a control plane that was started anew and knows no traffic.
        self._traffic_changed = {place.number for place in self.places if place.traffic}
        return register(self._membership.id, self._boot, len(self._listeners), self.url)
