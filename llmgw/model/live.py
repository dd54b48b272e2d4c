"""Requests in flight: what a gateway says of them when it is asked, and how they are ended."""

from llmgw.model.record import Record

REQUESTS = "requests"
"""Feature of a gateway: it tells of its requests in flight, and ends them, when it is asked."""

QUEUED = "queued"
CONNECTING = "connecting"
PREFILL = "prefill"
STREAMING = "streaming"
STATES = (QUEUED, CONNECTING, PREFILL, STREAMING)
"""It waits for room; for a connection to its engine; for its first token; its reply passes."""

MOST = 1000
"""Requests that are told of, or ended, at once."""


class LiveRequest(Record, frozen=True, kw_only=True):
    """One request that a gateway has not answered yet. Seconds; None: not known."""

    id: str
    key: str
    """The key's id."""
    key_name: str
    model: str
    """What serves it, or would."""
    asked: str | None = None
    """What it asks for, where that is another name: a split, or one with a fall-back."""
    replica: str | None = None
    """Where it was sent; None: nowhere yet."""
    node: str | None = None
    path: str
    streams: bool
    """Its client gets the reply as it is made."""
    state: str
    """One of `STATES`."""
    place: int | None = None
    """In the queue of its worker, 1 goes next; None: it does not wait."""
    age: float
    tokens: int | None = None
    """An estimate of what was produced so far: one an event."""
    client: str | None = None
    """Address of its connection: of a proxy before the gateway, where there is one."""


class AskRequests(Record, frozen=True, kw_only=True):
    """Down: which requests are in flight? What is None leaves nothing out. Feature `requests`."""

    ask: str
    """Its answer has the same."""
    limit: int
    """How many are told of; all are counted."""
    newest: bool = False
    """The newest of them, not the oldest."""
    ids: tuple[str, ...] = ()
    """Only these; empty: all."""
    key: str | None = None
    """The id or the name of a key."""
    model: str | None = None
    """What serves, or what was asked for."""
    replica: str | None = None
    node: str | None = None
    state: str | None = None


class RequestsSeen(Record, frozen=True, kw_only=True):
    """Up: the requests of one gateway, the oldest first, or the newest if these were asked for."""

    gateway: str
    ask: str
    total: int = 0
    """All that are in flight."""
    matching: int = 0
    """Those of them that were asked for."""
    requests: tuple[LiveRequest, ...] = ()
    silent: int = 0
    """Workers that did not answer: theirs are missing."""


class CancelRequests(Record, frozen=True, kw_only=True):
    """Down: end these, wherever they are; one that is not here is none of yours."""

    ask: str
    ids: tuple[str, ...]
    words: str
    """What their clients are told."""


class RequestsEnded(Record, frozen=True, kw_only=True):
    """Up: those that were ended."""

    gateway: str
    ask: str
    ids: tuple[str, ...] = ()
    silent: int = 0
    """Workers that did not answer: whether they had any of them is not known."""


class Silent(Record, frozen=True, kw_only=True):
    """A gateway that did not say all: what is in flight there is not known."""

    gateway: str
    words: str


class RequestShown(LiveRequest, frozen=True, kw_only=True):
    """A request in flight, and through which gateway it goes."""

    gateway: str


class RequestsShown(Record, frozen=True, kw_only=True):
    """Requests in flight, the oldest first, or the newest if these were asked for."""

    at: float
    """Seconds since the epoch."""
    total: int
    """All that are in flight at the gateways that answered."""
    matching: int
    """Those of them that were asked for; `requests` has at most as many as the limit."""
    requests: tuple[RequestShown, ...]
    silent: tuple[Silent, ...]
    """Gateways of which not all is known, and why."""


class RequestsCancelled(Record, frozen=True, kw_only=True):
    """What came of it: `gone` ended meanwhile, or were never there."""

    cancelled: tuple[str, ...]
    gone: tuple[str, ...]
    silent: tuple[Silent, ...]
    """Gateways that did not answer: some of `gone` may go on there."""
