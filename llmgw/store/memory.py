"""The store in memory: everything durable for as long as a process lives, shared by its planes.

For simulations and tests: the same rules, refusals and audit as in a database. No I/O and no
chance: what happens follows from the calls, and for the lease from the clock that was handed in.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from llmgw.base.clock import Clock
from llmgw.base.errors import Unreachable
from llmgw.model.catalog import CatalogEntry, Model
from llmgw.model.events import AuditEntry, Event
from llmgw.model.hardware import HardwareChange
from llmgw.model.jobs import Job
from llmgw.model.keys import JoinToken, Key, Token, UsageReport, UsageRow
from llmgw.model.settings import Settings, SettingsChange
from llmgw.store.interface import (
    Claim,
    Lease,
    StoredCertificate,
    StoredNode,
    StoredSettings,
    StoredTraffic,
)
from llmgw.store.rules.terms import check_writer
from llmgw.store.values.audit import Audit
from llmgw.store.values.catalog import CatalogRows
from llmgw.store.values.credentials import CredentialRows, JoinTokenRows
from llmgw.store.values.happened import EventRows, HardwareRows
from llmgw.store.values.jobs import JobRows
from llmgw.store.values.lease import LeaseRow
from llmgw.store.values.nodes import NodeRows
from llmgw.store.values.settings import SettingsRows
from llmgw.store.values.usage import UsageRows

T = TypeVar("T")


class Memory:
    """What lies in the store: the one value that several `MemoryStore` share.

    Args:
        clock: the store's own; None: a lease lasts until its holder releases it.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.lease = LeaseRow(None if clock is None else clock.monotonic)
        self.audit = Audit()
        self.settings = SettingsRows(self.audit)
        self.catalog = CatalogRows(self.audit)
        self.keys = CredentialRows(Key, self.audit)
        self.tokens = CredentialRows(Token, self.audit)
        self.join_tokens = JoinTokenRows(self.audit)
        self.nodes = NodeRows(self.audit)
        self.jobs = JobRows(self.audit)
        self.secrets: dict[str, bytes] = {}
        self.usage = UsageRows()
        self.traffic: dict[str, StoredTraffic] = {}
        self.events = EventRows()
        self.hardware = HardwareRows()


def always_there() -> None:
    """Reach the store."""


class MemoryStore:
    """Implements `Store`. One control plane's way to a `Memory`; several may be open at once.

    Each call gives way to other tasks before and after it, as one that has to wait for a database.

    Args:
        memory: what it works on; None: a new one.
        reach: called before each call; what it raises (`Unreachable`) is the call's end, and
            nothing was changed.
    """

    def __init__(
        self, memory: Memory | None = None, *, reach: Callable[[], None] = always_there
    ) -> None:
        self.memory = Memory() if memory is None else memory
        self._reach = reach
        self._holder: str | None = None
        self._claim: Claim | None = None
        self._closed = False

    async def open(self, holder: str) -> None:
        """Open; others that have it open go on, and the lease says who of them leads."""
        await asyncio.sleep(0)
        self._reach()
        self._holder = holder

    async def close(self) -> None:
        """Let go. Nothing may be called afterwards; a second close does nothing."""
        self._closed = True

    async def lease(self) -> Lease | None:
        """Return who leads."""
        return await self._read(self.memory.lease.now)

    async def acquire_lease(self, claim: Claim, *, ttl: float) -> Lease:
        """Take the leadership when it is free; return the lease in force."""
        self._claim = claim
        return await self._read(self.memory.lease.acquire, claim, ttl)

    async def renew_lease(self, lease: Lease, *, ttl: float) -> Lease | None:
        """Hold the leadership for longer; return the lease in force."""
        return await self._read(self.memory.lease.renew, lease, ttl)

    async def release_lease(self, lease: Lease) -> None:
        """Give the leadership up."""
        await self._read(self.memory.lease.release, lease)

    async def take_term(self, lease: Lease, seen: int) -> Lease:
        """Raise the lease's term above one that an agent reported."""
        return await self._read(self.memory.lease.raise_term, lease, seen)

    async def settings(self) -> StoredSettings:
        """Return the newest settings."""
        return await self._read(self.memory.settings.newest)

    async def put_settings(
        self, settings: Settings, *, expected: int, actor: str, at: float
    ) -> StoredSettings:
        """Replace the settings; every path that changed becomes an entry of the history."""
        return await self._change(self.memory.settings.put, settings, expected, actor, at)

    async def settings_history(
        self, path: str = "", limit: int = 100
    ) -> tuple[SettingsChange, ...]:
        """Return changes at or below a dotted path, newest first."""
        return await self._read(self.memory.settings.history, path, limit)

    async def models(self) -> tuple[CatalogEntry, ...]:
        """Return the catalog, by name."""
        return await self._read(self.memory.catalog.entries)

    async def put_model(
        self, model: Model, *, expected: int | None, actor: str, at: float
    ) -> CatalogEntry:
        """Add or replace a model."""
        return await self._change(self.memory.catalog.put, model, expected, actor, at)

    async def remove_model(self, name: str, *, actor: str, at: float) -> None:
        """Remove a model."""
        await self._change(self.memory.catalog.remove, name, actor, at)

    async def model_history(self, name: str, limit: int = 100) -> tuple[CatalogEntry, ...]:
        """Return former and present versions of a model, newest first."""
        return await self._read(self.memory.catalog.history, name, limit)

    async def keys(self) -> tuple[Key, ...]:
        """Return all users' keys, by name."""
        return await self._read(self.memory.keys.every_one)

    async def put_key(self, key: Key, *, actor: str, at: float) -> None:
        """Add or replace a key by id."""
        await self._change(self.memory.keys.put, key, actor, at)

    async def remove_key(self, key_id: str, *, actor: str, at: float) -> None:
        """Remove a key by id."""
        await self._change(self.memory.keys.remove, key_id, actor, at)

    async def tokens(self) -> tuple[Token, ...]:
        """Return all operators' tokens, by name."""
        return await self._read(self.memory.tokens.every_one)

    async def put_token(self, token: Token, *, actor: str, at: float) -> None:
        """Add or replace an operator's token by id."""
        await self._change(self.memory.tokens.put, token, actor, at)

    async def remove_token(self, token_id: str, *, actor: str, at: float) -> None:
        """Remove an operator's token."""
        await self._change(self.memory.tokens.remove, token_id, actor, at)

    async def put_join_token(self, token: JoinToken, *, actor: str, at: float) -> None:
        """Add a one-time token."""
        await self._change(self.memory.join_tokens.put, token, actor, at)

    async def join_token(self, token_id: str) -> JoinToken:
        """Return a one-time token, used or not."""
        return await self._read(self.memory.join_tokens.one, token_id)

    async def use_join_token(self, token_id: str, *, at: float) -> JoinToken:
        """Mark a token as used, once."""
        return await self._change(self.memory.join_tokens.use, token_id, at)

    async def nodes(self) -> tuple[StoredNode, ...]:
        """Return every node that once registered and was not removed."""
        return await self._read(self.memory.nodes.every_node)

    async def put_node(self, node: StoredNode) -> None:
        """Add or replace a node."""
        await self._change(self.memory.nodes.put, node)

    async def set_wish(self, node: str, wish: str | None, *, actor: str, at: float) -> None:
        """Cordon, drain or release a node."""
        await self._change(self.memory.nodes.set_wish, node, wish, actor, at)

    async def remove_node(self, node: str, *, actor: str, at: float) -> tuple[str, ...]:
        """Forget a node and deny all its certificates; return their serials."""
        return await self._change(self._remove_node, node, actor, at)

    async def put_certificate(self, certificate: StoredCertificate) -> None:
        """Record a certificate that was signed."""
        await self._read(self.memory.nodes.put_certificate, certificate)

    async def denied(self) -> frozenset[str]:
        """Return the serials of all denied certificates."""
        return await self._read(self.memory.nodes.denied)

    async def secret(self, name: str, made: bytes) -> bytes:
        """Return the secret of that name; the first caller's `made` becomes it."""
        return await self._read(self.memory.secrets.setdefault, name, made)

    async def apply_usage(self, report: UsageReport, *, at: float) -> bool:
        """Add what a report says beyond the last one of its (gateway, boot, worker)."""
        return await self._change(self.memory.usage.apply, report, at)

    async def usage(self, *, since: float, until: float) -> tuple[UsageRow, ...]:
        """Return what was used, by hour, key and model."""
        return await self._read(self.memory.usage.between, since, until)

    async def traffic(self) -> tuple[StoredTraffic, ...]:
        """Return what every gateway counted, by gateway."""
        return await self._read(self._traffic)

    async def put_traffic(self, counted: Sequence[StoredTraffic]) -> None:
        """Replace what these gateways counted; the others stay."""
        await self._change(self.memory.traffic.update, {one.gateway: one for one in counted})

    async def add_event(self, event: Event) -> None:
        """Keep an event; old ones are dropped beyond a bound."""
        await self._read(self.memory.events.add, event)

    async def events(self, *, since: float, limit: int = 1000) -> tuple[Event, ...]:
        """Return the newest events since a time, oldest first."""
        return await self._read(self.memory.events.since, since, limit)

    async def put_hardware(self, changes: Sequence[HardwareChange], *, before: float) -> None:
        """Keep changes of hardware, or replace those of the same id; old ones are dropped."""
        await self._change(self.memory.hardware.put, tuple(changes), before)

    async def hardware(self, *, since: float, node: str | None) -> tuple[HardwareChange, ...]:
        """Return the changes that ended at or after a time, oldest first."""
        return await self._read(self.memory.hardware.ended_since, since, node)

    async def hardware_last(self) -> tuple[HardwareChange, ...]:
        """Return the last change of each node's subjects, however old."""
        return await self._read(self.memory.hardware.last)

    async def put_job(self, job: Job) -> None:
        """Add or replace a job by id; a new one is audited under its actor."""
        await self._change(self.memory.jobs.put, job)

    async def jobs(self) -> tuple[Job, ...]:
        """Return all jobs, newest first."""
        return await self._read(self.memory.jobs.every)

    async def job(self, job_id: str) -> Job:
        """Return one job."""
        return await self._read(self.memory.jobs.one, job_id)

    async def audit(self, limit: int = 100) -> tuple[AuditEntry, ...]:
        """Return what people changed, newest first."""
        return await self._read(self.memory.audit.newest, limit)

    async def put_audit(self, entry: AuditEntry) -> None:
        """Record an action that no other call records."""
        await self._change(self.memory.audit.add, entry)

    async def verify_audit(self) -> str | None:
        """Return what is wrong with the audit's chain, in words; None when it is whole."""
        return await self._read(self.memory.audit.verify)

    async def _change(self, call: Callable[..., T], *args: object) -> T:
        return await self._read(self._as_leader, call, *args)

    def _as_leader(self, call: Callable[..., T], *args: object) -> T:
        check_writer(self._claim, self.memory.lease.now())
        return call(*args)

    async def _read(self, call: Callable[..., T], *args: object) -> T:
        if self._closed:
            raise Unreachable("the store in memory is closed")
        if self._holder is None:
            raise Unreachable("the store in memory is not open")
        await asyncio.sleep(0)
        self._reach()
        try:
            return call(*args)
        finally:
            await asyncio.sleep(0)

    def _remove_node(self, node: str, actor: str, at: float) -> tuple[str, ...]:
        serials = self.memory.nodes.remove(node, actor, at)
        self.memory.hardware.forget(node)
        return serials

    def _traffic(self) -> tuple[StoredTraffic, ...]:
        return tuple(one for _, one in sorted(self.memory.traffic.items()))
