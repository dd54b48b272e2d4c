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
    priority: int = 0
    """Requests of a higher one leave a queue first."""


LIMITS = ("requests_per_minute", "tokens_per_minute", "tokens_per_day", "concurrent")
"""The fields of a key that limit it."""


def equal_share(limit: int, gateways: int) -> int:
    """Return the part of a limit that one of so many gateways keeps to until it is lent another.

    At least one: of a limit that is less than the gateways, more than it may be used in all.
    """
    return max(1, limit // max(1, gateways))


class QuotaFigures(Record, frozen=True, kw_only=True):
    """One figure for each limit that a key can have; None: it has no such limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    tokens_per_day: int | None = None
    concurrent: int | None = None


class QuotaUse(Record, frozen=True, kw_only=True):
    """What a key used at a gateway, in the windows of its limits."""

    key: str
    used: QuotaFigures
    held: QuotaFigures
    """What the gateway keeps to now."""
    short: bool = False
    """A request was refused since the last report, because this gateway's slice is used up."""
    refused: int | None = None
    """Requests that were refused for its limits since this gateway started; None: not said."""


class QuotaReport(Record, frozen=True, kw_only=True):
    """Up: the keys whose use or slice changed since the last report on this stream."""

    gateway: str
    keys: tuple[QuotaUse, ...] = ()


class QuotaSlice(Record, frozen=True, kw_only=True):
    """The part of a key's limits that one gateway may use."""

    key: str
    slice: QuotaFigures | None = None
    """None: this gateway's equal share of the key's limits."""
    more: bool = False
    """The key is not used up: what this gateway lacks is lent to it soon."""


class QuotaGrant(Record, frozen=True, kw_only=True):
    """Down: slices that changed."""

    gateways: int
    """Gateways that share: a key that has no slice is kept to its limit divided by this.

    0: as before; only that this control plane lends, and wants to be told.
    """
    slices: tuple[QuotaSlice, ...] = ()
    store_away: bool = False
    """The store can't be asked now: a key that is not known may be a new one."""


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


class UsageOver(Record, frozen=True, kw_only=True):
    """What a worker said of a key and a model is over: the key is gone, and all of it was taken."""

    key: str
    model: str
    sequence: int
    """Of the first report that says so: whoever has applied that one has forgotten it already."""


class UsageReport(Record, frozen=True, kw_only=True):
    """One worker's totals, applied once: (gateway, boot, worker) name it, `sequence` orders it."""

    gateway: str
    boot: str
    worker: int
    sequence: int
    totals: tuple[UsageTotals, ...]
    over: tuple[UsageOver, ...] = ()
    """Rows that are forgotten: what is said of one after this counts from zero."""


class UsageSum(Record, frozen=True, kw_only=True):
    """What was used, over all that is not told apart: that is None."""

    start: float | None
    """Of the hour or the day (UTC), seconds since the epoch."""
    key: str | None
    model: str | None
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cancelled: int
    estimated: int
    failed: int


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
