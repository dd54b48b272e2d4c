"""What gateways are told and what they tell."""

from llmgw.model.record import Record

REACHED = "reached"
"""Feature of a gateway: it tells which place of the feed its workers serve by."""
LOADS = "loads"
"""Feature of a gateway: it tells what it has in flight at each replica."""
ENGINE_LOADS = "engine_loads"
"""Feature of a gateway: it takes what engines say that they have to do."""
QUOTAS = "quotas"
"""Feature of a gateway: it keeps to the slices of keys' limits that it is lent."""
RESTARTS = "restarts"
"""Feature of a gateway: it tells when its workers began, and restarts them when it is told to."""


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
    concurrency: int | None = None
    """Requests that it serves at once; more wait at gateways. None: nobody said."""
    tls: bool = False
    base_path: str | None = None
    """What stands in place of `/v1` in its paths; None: nothing does."""
    key_file: str | None = None
    """File on the gateway's machine with its key, in place of `key`."""
    is_outside: bool = False
    """It is a provider's: it gets, and its replies tell, nothing of this cluster."""


class Split(Record, frozen=True, kw_only=True):
    """One of the models under a public name, and its weight."""

    model: str
    weight: int


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
    splits: tuple[Split, ...] = ()
    """Models that requests for this name are shared between; empty: it is a model of its own."""
    fallback: str | None = None
    """Model that serves when none of these can."""
    outside: Endpoint | None = None
    """A provider's endpoint that serves then."""


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
    queue_most: int = 0
    """Requests for one model that wait at one worker while its replicas serve as many as they may.
    """
    queue_for: float = 0.0
    """Seconds for which one waits."""
    replica_requests: int | None = None
    """Requests that a replica of which nobody says how many it serves is sent at once; None: any.
    """
    comment_period: float = 0.0
    """Seconds after which, and between which, a client of a stream that waits is told its place;
    0: never."""
    replica_connections: int | None = None
    """Requests of one gateway that a replica has at most; None: nobody said."""
    tls_names: tuple[str, ...] = ()
    """Names and addresses under which users reach gateways: what the cluster's certificate names.
    """
    held_bytes: int | None = None
    """Bytes of requests' bodies that one worker holds; None: a part of its machine's memory."""


class Histogram(Record, frozen=True, kw_only=True):
    """Cumulative counts by upper bound; the last count is of everything. Seconds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


class ReplyCount(Record, frozen=True, kw_only=True):
    """How many requests were answered with one status code."""

    code: int
    count: int


class RefusalCount(Record, frozen=True, kw_only=True):
    """How many requests the gateway refused with one code of its own."""

    code: str
    count: int


class ChoiceCount(Record, frozen=True, kw_only=True):
    """How many times one reason decided where a request went."""

    reason: str
    count: int


class FallbackCount(Record, frozen=True, kw_only=True):
    """How many requests went elsewhere because nothing that serves a name could take them."""

    to: str
    reason: str
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
    waited: Histogram | None = None
    """Of each request that waited and went on: how long."""
    refusals: tuple[RefusalCount, ...] = ()
    """Requests that the gateway itself refused, by the code of the refusal."""
    choices: tuple[ChoiceCount, ...] = ()
    """Choices of a replica, by reason."""
    fallbacks: tuple[FallbackCount, ...] = ()
    """Requests that went to a fall-back."""
    errors: tuple[RefusalCount, ...] = ()
    """Requests that ended with another error of the gateway's, by its code."""


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
    failed_at: int = 0
    """Workers for which it failed and has not answered since."""
    score: float | None = None
    """What it has to do as the choice sees it, in requests; of what workers say the most."""


class ModelQueue(Record, frozen=True, kw_only=True):
    """Requests that wait at a gateway for a model: nothing serves it yet, or it is full."""

    model: str
    queued: int


class LoadReport(Record, frozen=True, kw_only=True):
    """What a gateway has in flight now, over all its workers.

    The newest replaces the older one; what it does not name is nothing. Feature `loads`.
    """

    gateway: str
    replicas: tuple[ReplicaLoad, ...] = ()
    queues: tuple[ModelQueue, ...] = ()
    tells_failures: bool = False
    """It tells of replicas that failed."""


class EngineLoad(Record, frozen=True, kw_only=True):
    """What an engine says that it has to do; None: it does not say."""

    replica: str
    running: int | None = None
    waiting: int | None = None
    cache_used: float | None = None
    """Share of its KV cache that requests hold, between 0 and 1."""
    age: float
    """Seconds since it said so, when this was sent."""


class EngineLoads(Record, frozen=True, kw_only=True):
    """Down: what is new of what engines say; what is not named stays as it was told last."""

    stale_after: float
    """Seconds after which it says nothing any more: three of an agent's looks."""
    loads: tuple[EngineLoad, ...] = ()


class GatewayRegister(Record, frozen=True, kw_only=True):
    """A gateway's first message on a stream."""

    gateway: str
    version: str | None = None
    boot: str | None = None
    workers: int | None = None
    url: str | None = None
    """Where users reach it."""
    features: tuple[str, ...] | None = None


class WorkerStart(Record, frozen=True, kw_only=True):
    """One worker of a gateway."""

    worker: int
    began: float
    """Seconds since the epoch."""


class WorkersReport(Record, frozen=True, kw_only=True):
    """The workers that a gateway has now. Feature `restarts`."""

    gateway: str
    workers: tuple[WorkerStart, ...] = ()


class RestartWorkers(Record, frozen=True, kw_only=True):
    """Replace all workers by new ones, one after the other; no connection is refused or reset."""

    actor: str
    """Who asks, for the gateway's log."""


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
    started: tuple[WorkerStart, ...] | None = None
    """Its workers and when each began; None: it does not say."""
