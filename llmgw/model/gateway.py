"""What gateways are told and what they tell."""

from llmgw.model.record import Record

REACHED = "reached"
"""Feature of a gateway: it tells which place of the feed its workers serve by."""
LOADS = "loads"
"""Feature of a gateway: it tells what it has in flight at each replica."""


class Endpoint(Record, frozen=True, kw_only=True):
    """One engine that serves a model."""

    replica: str
    node: str | None = None
    host: str
    port: int
    key: str | None = None
    """The replica's key; None for an engine without one. A secret: never listed by the API."""
    served_name: str | None = None
    """The name that the engine answers to; None: the public name."""
    engine: str | None = None
    last_resort: bool = False
    """On a lost node: used only where nothing else serves."""


class Route(Record, frozen=True, kw_only=True):
    """Topic `routes`: where requests for a public name go."""

    model: str
    endpoints: tuple[Endpoint, ...] = ()
    wanted: int = 0
    """Replicas that the catalog wants; 0 endpoints with some wanted means `wait or 503`."""
    reason: str | None = None
    """Why nothing serves it, in words."""
    holds: bool = False
    """A request that comes while nothing serves it waits at the gateway: it starts the model."""


class GatewayConfig(Record, frozen=True, kw_only=True):
    """Topic `settings`, id `gateway`."""

    version: int
    stopped: bool = False
    request_body_bytes: int
    connect_timeout: float
    first_byte_timeout: float
    idle_timeout: float
    client_timeout: float
    held_most: int = 0
    """Requests for one model that wait at one worker while it starts; more are answered 503."""
    held_for: float = 0.0
    """Seconds for which one waits."""


class Histogram(Record, frozen=True, kw_only=True):
    """Cumulative counts by upper bound; the last count is of everything. Seconds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


class ReplyCount(Record, frozen=True, kw_only=True):
    """How many requests were answered with one status code."""

    code: int
    count: int


class ModelTraffic(Record, frozen=True, kw_only=True):
    """Cumulative traffic of one model through one worker since its start."""

    model: str
    replies: tuple[ReplyCount, ...] = ()
    duration: Histogram | None = None
    first_token: Histogram | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retries: int = 0
    client_aborts: int = 0
    engine_aborts: int = 0
    in_flight: int = 0
    """A level, not a total."""
    inter_token: Histogram | None = None
    """Of each streamed reply the mean time between two of its tokens."""


class TrafficReport(Record, frozen=True, kw_only=True):
    """One worker's traffic; the newest of a (gateway, boot, worker) replaces the older one."""

    gateway: str
    boot: str
    worker: int
    models: tuple[ModelTraffic, ...]


class ReplicaLoad(Record, frozen=True, kw_only=True):
    """Requests that a gateway has at a replica now."""

    replica: str
    in_flight: int


class ModelQueue(Record, frozen=True, kw_only=True):
    """Requests that wait at a gateway for a model that nothing serves yet."""

    model: str
    queued: int


class LoadReport(Record, frozen=True, kw_only=True):
    """What a gateway has in flight now, over all its workers.

    The newest replaces the older one; what it does not name is nothing. Feature `loads`.
    """

    gateway: str
    replicas: tuple[ReplicaLoad, ...] = ()
    queues: tuple[ModelQueue, ...] = ()


class GatewayRegister(Record, frozen=True, kw_only=True):
    """A gateway's first message on a stream."""

    gateway: str
    version: str | None = None
    boot: str | None = None
    workers: int | None = None
    url: str | None = None
    """Where users reach it."""
    features: tuple[str, ...] | None = None


class EndpointDown(Record, frozen=True, kw_only=True):
    """A gateway could not connect to an engine."""

    replica: str
    words: str


class Gateway(Record, frozen=True, kw_only=True):
    """A gateway as the control plane knows it (admin API)."""

    id: str
    connected: bool
    version: str | None = None
    url: str | None = None
    workers: int | None = None
    peer: str | None = None
    since: float | None = None
    certificate_ends: float | None = None
    certificate_begins: float | None = None
