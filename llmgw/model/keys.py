"""Who may ask what: users' keys, operators' tokens, one-time tokens, and what was used."""

from llmgw.model.record import Record

READ = "read"
OPERATE = "operate"
ADMIN = "admin"
METRICS = "metrics"
ROLES = (READ, OPERATE, ADMIN, METRICS)


class Key(Record, frozen=True, kw_only=True):
    """A user's key: topic `keys`. The key itself is shown once and never stored."""

    id: str
    sha256: str
    """Hexadecimal, of the whole key."""
    name: str
    created: float
    expires: float | None = None
    models: tuple[str, ...] | None = None
    """Models it may use; None: all."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    concurrent: int | None = None


class Token(Record, frozen=True, kw_only=True):
    """An operator's token for the admin API; only its hash is kept."""

    id: str
    sha256: str
    role: str
    name: str
    created: float
    expires: float | None = None


class JoinToken(Record, frozen=True, kw_only=True):
    """A one-time token: bound to a role and an id."""

    id: str
    sha256: str
    """Of the secret part."""
    role: str
    """`node`, `gateway` or `server`."""
    subject: str
    expires: float
    used: float | None = None


class UsageTotals(Record, frozen=True, kw_only=True):
    """Cumulative totals of one worker for one key and model; they never fall within a boot."""

    key: str
    model: str
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cancelled: int = 0
    estimated: int = 0
    """Requests whose usage the engine did not say."""
    failed: int = 0


class UsageReport(Record, frozen=True, kw_only=True):
    """One worker's totals, applied once: (gateway, boot, worker) name it, `sequence` orders it."""

    gateway: str
    boot: str
    worker: int
    sequence: int
    totals: tuple[UsageTotals, ...]


class UsageRow(Record, frozen=True, kw_only=True):
    """What a key used of a model in one hour (seconds since the epoch, start of the hour)."""

    hour: float
    key: str
    model: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cancelled: int
    estimated: int
    failed: int
