"""The one interface that every store implements, and the records that only stores hold."""

from collections.abc import Sequence
from typing import Protocol

from llmgw.model.catalog import CatalogEntry, Model
from llmgw.model.events import AuditEntry, Event
from llmgw.model.gateway import ModelTraffic, TrafficReport
from llmgw.model.hardware import HardwareChange
from llmgw.model.jobs import Job
from llmgw.model.keys import JoinToken, Key, Token, UsageReport, UsageRow
from llmgw.model.record import Record
from llmgw.model.settings import Settings, SettingsChange


class StoredSettings(Record, frozen=True, kw_only=True):
    """The settings and their version; version 0 has never been written."""

    version: int
    settings: Settings


class StoredNode(Record, frozen=True, kw_only=True):
    """A node that once registered. Times in seconds since the epoch."""

    id: str
    first_seen: float
    last_seen: float
    wish: str | None = None
    """`draining`, `cordoned` or None."""


class StoredCertificate(Record, frozen=True, kw_only=True):
    """A certificate that the cluster signed."""

    serial: str
    """Hexadecimal, lower case."""
    role: str
    subject: str
    ends: float
    denied: float | None = None
    """Since when it no longer connects; None: it does."""


class StoredTraffic(Record, frozen=True, kw_only=True):
    """What one gateway has counted since it first connected."""

    gateway: str
    finished: tuple[ModelTraffic, ...] = ()
    """Summed over the boots that are over; nothing is in flight in them."""
    reports: tuple[TrafficReport, ...] = ()
    """The newest of each worker of the boot that may go on."""


class Claim(Record, frozen=True, kw_only=True):
    """A control plane that leads or would. `server` and `boot` name it; two of one id are two."""

    server: str
    """Its id, as people are told."""
    boot: str
    """New with each start of its process."""
    addresses: tuple[str, ...] = ()
    """Where agents and gateways reach it, `host:port` each."""

    def same(self, other: "Claim") -> bool:
        """Say whether both are the same process, wherever it is reached by now."""
        return (self.server, self.boot) == (other.server, other.boot)


class Lease(Record, frozen=True, kw_only=True):
    """Who leads, under which term, and for how long unless it is renewed."""

    claim: Claim
    term: int
    left: float | None = None
    """Seconds by the store's own clock, when it was asked; None: as long as it has the store open.
    0: its time is over, and nobody took it yet."""


class Store(Protocol):
    """Everything durable. Every change that a person makes names its actor and is audited.

    All times are seconds since the epoch and come from the caller, but for the lease's, which are
    the store's own. A call either happened wholly or not at all. Errors: `Conflict` (changed
    meanwhile), `NotFound`, `Unreachable` (the store itself can't be reached; nothing was changed),
    `Refused` (held by another control plane, or its schema is newer than this program).

    Where several have it open, changes are refused (`Refused`, naming the leader) of one that lost
    the lease, or never had it, while another's stands: what a leader was told and has loaded stays
    as it knows it. Events, certificates and secrets are recorded by whoever has them.
    """

    async def open(self, holder: str) -> None:
        """Open and migrate; a store that takes one control plane only is held from here on.

        Raises:
            Refused: another control plane holds it, or a newer llmgw wrote it.
        """
        ...

    async def close(self) -> None:
        """Let go of the store, not of the lease. Nothing may be called afterwards."""
        ...

    async def lease(self) -> Lease | None:
        """Return who leads; None when nobody ever did or the last one released it."""
        ...

    async def acquire_lease(self, claim: Claim, *, ttl: float) -> Lease:
        """Take the leadership when nobody holds it or its holder's time is over.

        Returns:
            The lease in force: the claim's own under a term higher than ever before, or another's.
            A claim that holds it already takes it anew.
        """
        ...

    async def renew_lease(self, lease: Lease, *, ttl: float) -> Lease | None:
        """Hold the leadership for another `ttl` seconds, under the same term.

        Returns:
            The lease in force: the given one renewed, or, when that was lost, another's or None.
        """
        ...

    async def release_lease(self, lease: Lease) -> None:
        """Give the leadership up, so that another takes it at once; one that was lost is left."""
        ...

    async def take_term(self, lease: Lease, seen: int) -> Lease:
        """Raise the lease's term above one that an agent reported; a higher one stays.

        Raises:
            Conflict: the lease was lost.
            Refused: what was seen is no term.
        """
        ...

    async def settings(self) -> StoredSettings:
        """Return the newest settings."""
        ...

    async def put_settings(
        self, settings: Settings, *, expected: int, actor: str, at: float
    ) -> StoredSettings:
        """Replace the settings; every path that changed becomes an entry of the history.

        Settings that differ in nothing stay at their version.

        Raises:
            Conflict: `expected` is not the newest version.
        """
        ...

    async def settings_history(
        self, path: str = "", limit: int = 100
    ) -> tuple[SettingsChange, ...]:
        """Return changes at or below a dotted path, newest first."""
        ...

    async def models(self) -> tuple[CatalogEntry, ...]:
        """Return the catalog, by name."""
        ...

    async def put_model(
        self, model: Model, *, expected: int | None, actor: str, at: float
    ) -> CatalogEntry:
        """Add or replace a model. `expected`: its version; 0: must be new; None: whatever is there.

        A model that differs in nothing stays at its version; a version is never used again.

        Raises:
            Conflict: the version is another.
        """
        ...

    async def remove_model(self, name: str, *, actor: str, at: float) -> None:
        """Remove a model.

        Raises:
            NotFound: there is none of that name.
        """
        ...

    async def model_history(self, name: str, limit: int = 100) -> tuple[CatalogEntry, ...]:
        """Return former and present versions of a model, newest first."""
        ...

    async def keys(self) -> tuple[Key, ...]:
        """Return all users' keys that are not removed, by name."""
        ...

    async def put_key(self, key: Key, *, actor: str, at: float) -> None:
        """Add or replace a key by id."""
        ...

    async def remove_key(self, key_id: str, *, actor: str, at: float) -> None:
        """Remove a key by id.

        Raises:
            NotFound: there is none of that id.
        """
        ...

    async def tokens(self) -> tuple[Token, ...]:
        """Return all operators' tokens."""
        ...

    async def put_token(self, token: Token, *, actor: str, at: float) -> None:
        """Add or replace an operator's token by id."""
        ...

    async def remove_token(self, token_id: str, *, actor: str, at: float) -> None:
        """Remove an operator's token.

        Raises:
            NotFound: there is none of that id.
        """
        ...

    async def put_join_token(self, token: JoinToken, *, actor: str, at: float) -> None:
        """Add a one-time token."""
        ...

    async def join_token(self, token_id: str) -> JoinToken:
        """Return a one-time token, used or not.

        Raises:
            NotFound: there is none of that id.
        """
        ...

    async def use_join_token(self, token_id: str, *, at: float) -> JoinToken:
        """Mark a token as used, once; of two callers at once only one gets it.

        Raises:
            NotFound: there is none of that id.
            Refused: it was used before, or it ended.
        """
        ...

    async def nodes(self) -> tuple[StoredNode, ...]:
        """Return every node that once registered and was not removed."""
        ...

    async def put_node(self, node: StoredNode) -> None:
        """Add or replace a node; when it was first seen, and its wish, stay (see `set_wish`)."""
        ...

    async def set_wish(self, node: str, wish: str | None, *, actor: str, at: float) -> None:
        """Cordon, drain or release a node.

        Raises:
            NotFound: there is none of that id.
        """
        ...

    async def remove_node(self, node: str, *, actor: str, at: float) -> tuple[str, ...]:
        """Forget a node, what happened to its hardware too, and deny all its certificates.

        Returns:
            The serials of the certificates.

        Raises:
            NotFound: there is none of that id and no certificate of it.
        """
        ...

    async def put_certificate(self, certificate: StoredCertificate) -> None:
        """Record a certificate that was signed."""
        ...

    async def denied(self) -> frozenset[str]:
        """Return the serials of all denied certificates."""
        ...

    async def secret(self, name: str, made: bytes) -> bytes:
        """Return the secret of that name; the first caller's `made` becomes it."""
        ...

    async def apply_usage(self, report: UsageReport, *, at: float) -> bool:
        """Add what a report says beyond the last one of its (gateway, boot, worker).

        The difference goes into the hour of `at`. A report with a sequence that is not higher than
        the last one applied changes nothing and returns False. What it calls over is forgotten
        first: it counts from zero from there on.

        Raises:
            Refused: a total fell within the boot, or one is said twice; nothing was applied.
        """
        ...

    async def usage(self, *, since: float, until: float) -> tuple[UsageRow, ...]:
        """Return what was used, by hour, key and model."""
        ...

    async def traffic(self) -> tuple[StoredTraffic, ...]:
        """Return what every gateway counted, by gateway."""
        ...

    async def put_traffic(self, counted: Sequence[StoredTraffic]) -> None:
        """Replace what these gateways counted; the others stay."""
        ...

    async def add_event(self, event: Event) -> None:
        """Keep an event; old ones are dropped beyond a bound."""
        ...

    async def events(self, *, since: float, limit: int = 1000) -> tuple[Event, ...]:
        """Return the newest `limit` events at or after a time, oldest first."""
        ...

    async def put_hardware(self, changes: Sequence[HardwareChange], *, before: float) -> None:
        """Keep changes of hardware, or replace those of the same id.

        Of their nodes' older ones those that ended before a time are dropped, and the oldest beyond
        a bound a node; the last of each subject stays.
        """
        ...

    async def hardware(self, *, since: float, node: str | None) -> tuple[HardwareChange, ...]:
        """Return the changes that ended at or after a time, of one node or all, oldest first."""
        ...

    async def hardware_last(self) -> tuple[HardwareChange, ...]:
        """Return the last change of each node's subjects, however old."""
        ...

    async def put_job(self, job: Job) -> None:
        """Add or replace a job by id; a new one is audited under its actor.

        Of those that are over the oldest are dropped beyond a bound.
        """
        ...

    async def jobs(self) -> tuple[Job, ...]:
        """Return all jobs, newest first."""
        ...

    async def job(self, job_id: str) -> Job:
        """Return one job.

        Raises:
            NotFound: there is none of that id, or no longer.
        """
        ...

    async def audit(self, limit: int = 100) -> tuple[AuditEntry, ...]:
        """Return what people changed, newest first."""
        ...

    async def put_audit(self, entry: AuditEntry) -> None:
        """Record an action that no other call records (a token shown, a bench key handed out)."""
        ...

    async def verify_audit(self) -> str | None:
        """Return what is wrong with the audit's chain of hashes, in words; None: it is whole."""
        ...
