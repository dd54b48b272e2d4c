"""What the admin API takes and gives beyond the records themselves. They only grow."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from llmgw.control.keys import NAME_MOST
from llmgw.model.catalog import CatalogEntry, Model
from llmgw.model.draining import Draining
from llmgw.model.feed import Position
from llmgw.model.gateway import Gateway
from llmgw.model.keys import Key, QuotaFigures, Token
from llmgw.model.node import Heartbeat, Node
from llmgw.model.record import Record, Written
from llmgw.model.replica import Replica

LINES_MOST = 2000
YEARS = 100 * 366 * 86400.0
TIME_MOST = 1e11
"""Seconds since the epoch that nobody needs to name."""

WITHIN_MOST = 30 * 86400.0
"""Seconds that a job may be given."""

MINUTES_MOST = 400 * 24 * 60
"""Of a history: a bit more than a year."""

Lines = Annotated[int, Meta(ge=0, le=LINES_MOST)]
Time = Annotated[float, Meta(ge=0, le=TIME_MOST)]
Lasting = Annotated[float, Meta(gt=0, le=YEARS)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Most = Annotated[int, Meta(ge=1, le=10**12)]
Priority = Annotated[int, Meta(ge=-10, le=10)]
Name = Annotated[str, Meta(min_length=1, max_length=253)]
Id = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 253})]
Label = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": NAME_MOST})]
"""Whoever takes an id or a label checks it: one of a wrong length is refused like any bad one."""


class PassShown(Record, frozen=True, kw_only=True):
    """A background pass and how its last run ended. `at` in seconds since the epoch."""

    name: str
    at: float | None
    sentence: str | None
    error: str | None


class ModelStatus(Record, frozen=True, kw_only=True):
    """How a model is served, and why not."""

    name: str
    wanted: int
    ready: int
    """Replicas that requests go to now, but those of lost nodes, which are the last resort."""
    reason: str | None
    note: str | None = None
    """Which of its replicas are out of reach or draining, in words."""


class Trouble(Record, frozen=True, kw_only=True):
    """Something that a person should look at."""

    subject: str
    words: str


class Status(Record, frozen=True, kw_only=True):
    """The cluster in one look. Times in seconds since the epoch."""

    cluster: str
    server: str
    version: str
    leader: bool
    term: int
    epoch: str
    started: float
    now: float
    stopped: bool
    """The setting `serving.stopped`: nothing is served on purpose."""
    nodes: dict[str, int]
    """How many by liveness; `unknown`: known from the store, not heard of yet."""
    devices: dict[str, dict[str, int]]
    """How many by class, and of each class by what they are: `free`, `held`, or why neither."""
    replicas: dict[str, int]
    """How many by state; those out of reach by that: `lost`, `unreachable`, `not heard`."""
    models: tuple[ModelStatus, ...]
    gateways: tuple[Gateway, ...]
    static_endpoints: dict[str, int]
    """Endpoints without agents that the settings name, by model: gateways watch these alone."""
    problems: tuple[Trouble, ...]
    sentence: str | None
    """What the last plan did and why."""
    passes: tuple[PassShown, ...]


class NodeShown(Node, frozen=True, kw_only=True):
    """A node and its last heartbeat."""

    sample: Heartbeat | None = None
    sampled_at: float | None = None


class NodeHistoryQuery(Written, frozen=True, kw_only=True):
    """Which series, separated by commas (absent: all), and how many minutes back."""

    series: Annotated[str, Meta(max_length=200)] = ""
    minutes: Annotated[int, Meta(ge=1, le=MINUTES_MOST)] = 60


class Wish(Written, frozen=True, kw_only=True):
    """What is wanted of a node: `cordoned`, `draining`, or null for neither."""

    wish: str | None


class LogsQuery(Written, frozen=True, kw_only=True):
    """Which log: `source` is a shard (`replica/rank`), or absent for the agent's own."""

    source: Annotated[str, Meta(max_length=300)] | None = None
    lines: Lines = 100


class Logs(Record, frozen=True, kw_only=True):
    """The last lines, oldest first, and what else could be read."""

    lines: tuple[str, ...]
    sources: tuple[str, ...]


class LogEvent(Record, frozen=True, kw_only=True):
    """Further lines. `dropped`: lines lost to a slow reader before them."""

    lines: tuple[str, ...]
    dropped: int = 0


class ModelShown(CatalogEntry, frozen=True, kw_only=True):
    """A model and whether it is served."""

    ready: int
    """Replicas that requests go to now, but those of lost nodes, which are the last resort."""
    wanted: int
    reason: str | None
    """Why it is not served, in words."""
    note: str | None = None
    """Which of its replicas are out of reach or draining, in words."""


class ReplicaShown(Replica, frozen=True, kw_only=True):
    """A replica, whether its nodes are heard, and how far it is when it is given up."""

    away: str | None = None
    """`lost`, `unreachable` or `not heard` when a node of it is; null when all are heard."""
    away_words: str | None = None
    draining: Draining | None = None
    in_flight: int | None = None
    """Replies that gateways have begun there; null: one of them can't say."""


class EndpointShown(Record, frozen=True, kw_only=True):
    """One engine that serves a model; its key never leaves the control plane this way."""

    replica: str
    node: str | None
    host: str
    port: int
    keyed: bool
    """Requests to it carry the replica's key."""
    served_name: str | None
    engine: str | None
    last_resort: bool


class RouteShown(Record, frozen=True, kw_only=True):
    """Where requests for a public name go."""

    model: str
    endpoints: tuple[EndpointShown, ...]
    wanted: int
    reason: str | None


class NewKey(Written, frozen=True, kw_only=True):
    """A key to be made. `models`: those it may use, or null for all. `expires_in`: seconds.

    A limit that is null is none. Requests of a higher `priority` leave a queue first.
    """

    name: Label
    models: tuple[Name, ...] | None = None
    expires_in: Lasting | None = None
    requests_per_minute: Most | None = None
    tokens_per_minute: Most | None = None
    tokens_per_day: Most | None = None
    concurrent: Most | None = None
    priority: Priority = 0


class KeyEdit(Written, frozen=True, kw_only=True):
    """What is changed of a key: what is not named stays, what is null is none (see `NewKey`).

    `expires_in`: seconds from now; null: it never ends.
    """

    name: Label | UnsetType = UNSET
    models: tuple[Name, ...] | UnsetType | None = UNSET
    expires_in: Lasting | UnsetType | None = UNSET
    requests_per_minute: Most | UnsetType | None = UNSET
    tokens_per_minute: Most | UnsetType | None = UNSET
    tokens_per_day: Most | UnsetType | None = UNSET
    concurrent: Most | UnsetType | None = UNSET
    priority: Priority | UnsetType = UNSET


class KeyUse(Record, frozen=True, kw_only=True):
    """What a key used of its limits, over all gateways, in the minute and the day until now.

    `used` is null where no gateway has said anything: nothing was used lately, or there are none.
    `over`: a request of it was refused within the last minute, because a limit was reached.
    """

    id: str
    used: QuotaFigures | None
    over: bool


class KeyMade(Key, frozen=True, kw_only=True):
    """A new key; `key` is shown here and never again."""

    key: str


class NewToken(Written, frozen=True, kw_only=True):
    """An operator's token to be made. `expires_in`: seconds; null: never."""

    role: str
    name: Label
    expires_in: Lasting | None = None


class TokenMade(Token, frozen=True, kw_only=True):
    """A new token; `token` is shown here and never again."""

    token: str


class NewJoinToken(Written, frozen=True, kw_only=True):
    """A one-time token to be made. `role`: `node` or `gateway`; `subject`: its id."""

    role: str
    subject: Id


class JoinTokenMade(Record, frozen=True, kw_only=True):
    """A one-time token; shown here and never again."""

    token: str
    expires: float


class SettingPut(Written, frozen=True, kw_only=True):
    """One setting or branch by its dotted path; a value of null puts the default back."""

    path: Annotated[str, Meta(max_length=500)]
    value: Any
    expected: Annotated[int, Meta(ge=0, le=1 << 53)] | None = None
    """The version that was seen; absent: whatever is there."""


class HistoryQuery(Written, frozen=True, kw_only=True):
    """Changes at or below a dotted path, newest first."""

    path: Annotated[str, Meta(max_length=500)] = ""
    limit: Limit = 100


class NewServeJob(Written, frozen=True, kw_only=True, tag_field="kind", tag="serve"):
    """A model to be served."""

    model: Model
    version: Annotated[int, Meta(ge=0, le=1 << 53)] | None = None
    """Of the catalog, that was seen; 0: it was not there; absent: whatever is there."""
    within: Annotated[float, Meta(gt=0, le=WITHIN_MOST)] | None = None
    """Seconds after which the job fails unless it serves; absent: it has no such limit."""


class LimitQuery(Written, frozen=True, kw_only=True):
    """How many, newest first."""

    limit: Limit = 100


class SinceQuery(Written, frozen=True, kw_only=True):
    """From when on, in seconds since the epoch; absent: the newest that are in memory."""

    since: Time | None = None


class HardwareQuery(Written, frozen=True, kw_only=True):
    """One node alone, and from when on, in seconds since the epoch; absent: all, the last day."""

    node: Annotated[str, Meta(max_length=253)] = ""
    since: Time | None = None


class UsageQuery(Written, frozen=True, kw_only=True):
    """A span in seconds since the epoch; absent: the last day until now."""

    since: Time | None = None
    until: Time | None = None


class UsageSumsQuery(Written, frozen=True, kw_only=True):
    """A span as for `UsageQuery`, and what is told apart: of hour, day, key, model, with commas.

    `key`: an id; what others used is left out.
    """

    since: Time | None = None
    until: Time | None = None
    by: str = "hour,key,model"
    key: Annotated[str, Meta(max_length=64)] | None = None


class PlanQuery(Written, frozen=True, kw_only=True):
    """Which plan; absent: what the last pass decided."""

    next: bool = False
    """What the next pass would decide, with nothing done."""
    stopped: bool | None = None
    """With `next`: as if serving were stopped, or were not; absent: as it is."""


class ExplainQuery(Written, frozen=True, kw_only=True):
    """Which profile; absent: the model's first."""

    profile: Annotated[str, Meta(max_length=253)] | None = None


class TopicsQuery(Written, frozen=True, kw_only=True):
    """Topics, separated by commas."""

    topics: Annotated[str, Meta(min_length=1, max_length=500)]


class WatchQuery(Written, frozen=True, kw_only=True):
    """Topics, and the position after which changes are wanted; without one, a listing first."""

    topics: Annotated[str, Meta(min_length=1, max_length=500)]
    epoch: Annotated[str, Meta(max_length=100)] | None = None
    number: Annotated[int, Meta(ge=0, le=1 << 53)] | None = None


class Listing(Record, frozen=True, kw_only=True):
    """All records of some topics. `ids` names them, in the same order."""

    position: Position
    topics: dict[str, tuple[Any, ...]]
    ids: dict[str, tuple[str, ...]]


class ChangeShown(Record, frozen=True, kw_only=True):
    """One object's newest state; a record of null: it is gone."""

    topic: str
    id: str
    record: Any


class WatchEvent(Record, frozen=True, kw_only=True):
    """Changes up to a position. `listing`: forget all that was known of these topics first."""

    position: Position
    listing: bool
    more: bool
    """The listing goes on in the next event."""
    changes: tuple[ChangeShown, ...]


class Alive(Record, frozen=True, kw_only=True):
    """The process answers."""

    status: str


class Leading(Record, frozen=True, kw_only=True):
    """Whether this control plane leads."""

    leader: bool
    term: int
