"""What happened and who did it."""

from llmgw.model.record import Record

INFO = "info"
WARNING = "warning"
PROBLEM = "problem"


class Event(Record, frozen=True, kw_only=True):
    """Topic `events`. `id` rises; `at` in seconds since the epoch."""

    id: str
    at: float
    severity: str
    kind: str
    """What sort: `node`, `replica`, `placement`, `settings`, `gateway` …"""
    subject: str
    """What it is about: `gpu-03`, a replica's id …"""
    words: str


class AuditEntry(Record, frozen=True, kw_only=True):
    """One change that somebody made. `before` and `after` as JSON text, secrets hidden."""

    at: float
    actor: str
    action: str
    subject: str
    before: str | None = None
    after: str | None = None
