"""The store in one SQLite file, on one thread of its own.

Every call runs on that thread and, when it changes something, in one transaction: it happened
wholly and lies on the disk (WAL, synchronous=FULL), or it did not happen. Whatever else has the
file open can only read.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec
from sqlite_utils import Database

from llmgw import __version__
from llmgw.base.errors import Unreachable
from llmgw.model.catalog import CatalogEntry, Model
from llmgw.model.events import AuditEntry, Event
from llmgw.model.hardware import HardwareChange
from llmgw.model.jobs import Job
from llmgw.model.keys import JoinToken, Key, Token, UsageReport, UsageRow
from llmgw.model.settings import Settings, SettingsChange
from llmgw.store.failures import in_words
from llmgw.store.file import opened, private
from llmgw.store.hold import Hold
from llmgw.store.interface import (
    Claim,
    Lease,
    StoredCertificate,
    StoredNode,
    StoredSettings,
    StoredTraffic,
)
from llmgw.store.migrations import STEPS
from llmgw.store.migrations.step import Step
from llmgw.store.rules.terms import is_in_force, lost
from llmgw.store.tables import (
    about,
    audit,
    catalog,
    credentials,
    events,
    hardware,
    jobs,
    nodes,
    traffic,
    usage,
)
from llmgw.store.tables import settings as settings_table

T = TypeVar("T")


class SqliteStore:
    """Implements `Store`. Lives between `open` and `close`; belongs to one event loop.

    Args:
        path: the file; made when it is not there, mode 0600 in a directory of mode 0700.
        version: this program's version, for refusals.
        steps: the schema's steps.
    """

    def __init__(
        self, path: Path, *, version: str = __version__, steps: Sequence[Step] = STEPS
    ) -> None:
        self._path = path
        self._version = version
        self._steps = tuple(steps)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="llmgw-store")
        self._hold: Hold | None = None
        self._db: Database | None = None
        self._closed = False
        self._lease: Lease | None = None

    async def open(self, holder: str) -> None:
        """Open, migrate and take hold: who has it open is the only one who can lead."""
        await self._on_thread(self._open, holder)

    async def close(self) -> None:
        """Let go. Nothing may be called afterwards; a second close does nothing."""
        if self._closed:
            return
        try:
            await self._on_thread(self._let_go)
        finally:
            self._closed = True
            self._thread.shutdown(wait=False)

    async def lease(self) -> Lease | None:
        """Return who leads."""
        return self._lease

    async def acquire_lease(self, claim: Claim, *, ttl: float) -> Lease:  # noqa: ARG002
        """Take the leadership, which nobody else can hold, and raise the term."""
        term = await self._change(about.lead, claim.server)
        self._lease = Lease(claim=claim, term=term)
        return self._lease

    async def renew_lease(self, lease: Lease, *, ttl: float) -> Lease | None:  # noqa: ARG002
        """Return the lease in force: the hold on the file lasts by itself."""
        if is_in_force(lease, self._lease):
            self._lease = lease
        return self._lease

    async def release_lease(self, lease: Lease) -> None:
        """Give the leadership up."""
        if is_in_force(lease, self._lease):
            self._lease = None

    async def take_term(self, lease: Lease, seen: int) -> Lease:
        """Raise the lease's term above one that an agent reported."""
        if not is_in_force(lease, self._lease):
            raise lost(lease, self._lease)
        term = await self._change(about.raise_term, seen)
        self._lease = msgspec.structs.replace(lease, term=term)
        return self._lease

    async def settings(self) -> StoredSettings:
        """Return the newest settings."""
        return await self._read(settings_table.newest)

    async def put_settings(
        self, settings: Settings, *, expected: int, actor: str, at: float
    ) -> StoredSettings:
        """Replace the settings; every path that changed becomes an entry of the history."""
        return await self._change(settings_table.put, settings, expected, actor, at)

    async def settings_history(
        self, path: str = "", limit: int = 100
    ) -> tuple[SettingsChange, ...]:
        """Return changes at or below a dotted path, newest first."""
        return await self._read(settings_table.history, path, limit)

    async def models(self) -> tuple[CatalogEntry, ...]:
        """Return the catalog, by name."""
        return await self._read(catalog.entries)

    async def put_model(
        self, model: Model, *, expected: int | None, actor: str, at: float
    ) -> CatalogEntry:
        """Add or replace a model."""
        return await self._change(catalog.put, model, expected, actor, at)

    async def remove_model(self, name: str, *, actor: str, at: float) -> None:
        """Remove a model."""
        await self._change(catalog.remove, name, actor, at)

    async def model_history(self, name: str, limit: int = 100) -> tuple[CatalogEntry, ...]:
        """Return former and present versions of a model, newest first."""
        return await self._read(catalog.history, name, limit)

    async def keys(self) -> tuple[Key, ...]:
        """Return all users' keys, by name."""
        return await self._read(credentials.every_one, Key)

    async def put_key(self, key: Key, *, actor: str, at: float) -> None:
        """Add or replace a key by id."""
        await self._change(credentials.put, key, actor, at)

    async def remove_key(self, key_id: str, *, actor: str, at: float) -> None:
        """Remove a key by id."""
        await self._change(credentials.remove, Key, key_id, actor, at)

    async def tokens(self) -> tuple[Token, ...]:
        """Return all operators' tokens, by name."""
        return await self._read(credentials.every_one, Token)

    async def put_token(self, token: Token, *, actor: str, at: float) -> None:
        """Add or replace an operator's token by id."""
        await self._change(credentials.put, token, actor, at)

    async def remove_token(self, token_id: str, *, actor: str, at: float) -> None:
        """Remove an operator's token."""
        await self._change(credentials.remove, Token, token_id, actor, at)

    async def put_join_token(self, token: JoinToken, *, actor: str, at: float) -> None:
        """Add a one-time token."""
        await self._change(credentials.put_join, token, actor, at)

    async def join_token(self, token_id: str) -> JoinToken:
        """Return a one-time token, used or not."""
        return await self._read(credentials.join, token_id)

    async def use_join_token(self, token_id: str, *, at: float) -> JoinToken:
        """Mark a token as used, once."""
        return await self._change(credentials.use_join, token_id, at)

    async def nodes(self) -> tuple[StoredNode, ...]:
        """Return every node that once registered and was not removed."""
        return await self._read(nodes.every_node)

    async def put_node(self, node: StoredNode) -> None:
        """Add or replace a node."""
        await self._change(nodes.put, node)

    async def set_wish(self, node: str, wish: str | None, *, actor: str, at: float) -> None:
        """Cordon, drain or release a node."""
        await self._change(nodes.set_wish, node, wish, actor, at)

    async def remove_node(self, node: str, *, actor: str, at: float) -> tuple[str, ...]:
        """Forget a node and deny all its certificates; return their serials."""
        return await self._change(nodes.remove, node, actor, at)

    async def put_certificate(self, certificate: StoredCertificate) -> None:
        """Record a certificate that was signed."""
        await self._change(nodes.put_certificate, certificate)

    async def denied(self) -> frozenset[str]:
        """Return the serials of all denied certificates."""
        return await self._read(nodes.denied)

    async def secret(self, name: str, made: bytes) -> bytes:
        """Return the secret of that name; the first caller's `made` becomes it."""
        return await self._change(credentials.secret, name, made)

    async def apply_usage(self, report: UsageReport, *, at: float) -> bool:
        """Add what a report says beyond the last one of its (gateway, boot, worker)."""
        return await self._change(usage.apply, report, at)

    async def usage(self, *, since: float, until: float) -> tuple[UsageRow, ...]:
        """Return what was used, by hour, key and model."""
        return await self._read(usage.between, since, until)

    async def traffic(self) -> tuple[StoredTraffic, ...]:
        """Return what every gateway counted, by gateway."""
        return await self._read(traffic.every_gateway)

    async def put_traffic(self, counted: Sequence[StoredTraffic]) -> None:
        """Replace what these gateways counted; the others stay."""
        await self._change(traffic.put, counted)

    async def add_event(self, event: Event) -> None:
        """Keep an event; old ones are dropped beyond a bound."""
        await self._change(events.add, event)

    async def events(self, *, since: float, limit: int = 1000) -> tuple[Event, ...]:
        """Return the newest events since a time, oldest first."""
        return await self._read(events.since, since, limit)

    async def put_hardware(self, changes: Sequence[HardwareChange], *, before: float) -> None:
        """Keep changes of hardware, or replace those of the same id; old ones are dropped."""
        await self._change(hardware.put, changes, before)

    async def hardware(self, *, since: float, node: str | None) -> tuple[HardwareChange, ...]:
        """Return the changes that ended at or after a time, oldest first."""
        return await self._read(hardware.ended_since, since, node)

    async def hardware_last(self) -> tuple[HardwareChange, ...]:
        """Return the last change of each node's subjects, however old."""
        return await self._read(hardware.last)

    async def put_job(self, job: Job) -> None:
        """Add or replace a job by id; a new one is audited under its actor."""
        await self._change(jobs.put, job)

    async def jobs(self) -> tuple[Job, ...]:
        """Return all jobs, newest first."""
        return await self._read(jobs.every_one)

    async def job(self, job_id: str) -> Job:
        """Return one job."""
        return await self._read(jobs.one, job_id)

    async def audit(self, limit: int = 100) -> tuple[AuditEntry, ...]:
        """Return what people changed, newest first."""
        return await self._read(audit.newest, limit)

    async def put_audit(self, entry: AuditEntry) -> None:
        """Record an action that no other call records."""
        await self._change(audit.add, entry)

    async def verify_audit(self) -> str | None:
        """Return what is wrong with the audit's chain, in words; None when it is whole."""
        return await self._read(audit.verify)

    async def _on_thread(self, call: Callable[..., T], *args: object) -> T:
        if self._closed:
            raise Unreachable(f"{self._path}: the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

    async def _read(self, call: Callable[..., T], *args: object) -> T:
        return await self._on_thread(self._called, call, args, False)

    async def _change(self, call: Callable[..., T], *args: object) -> T:
        return await self._on_thread(self._called, call, args, True)

    def _called(self, call: Callable[..., T], args: tuple[object, ...], changes: bool) -> T:
        if self._db is None:
            raise Unreachable(f"{self._path}: the store is not open")
        with in_words(self._path):
            if not changes:
                return call(self._db, *args)
            with self._db.atomic():
                return call(self._db, *args)

    def _open(self, holder: str) -> None:
        private(self._path)
        self._hold = Hold.take(self._path.with_name(f"{self._path.name}.lock"), holder, os.getpid())
        try:
            with in_words(self._path):
                self._db = opened(
                    self._path, steps=self._steps, version=self._version, holder=holder
                )
        except BaseException:
            self._hold.release()
            self._hold = None
            raise

    def _let_go(self) -> None:
        try:
            if self._db is not None:
                with in_words(self._path):
                    self._db.close()
        finally:
            self._db = self._lease = None
            if self._hold is not None:
                self._hold.release()
                self._hold = None
