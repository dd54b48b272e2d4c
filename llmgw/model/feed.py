"""List, then watch: the one way in which anything follows the fleet."""

from llmgw.model.gateway import GatewayConfig, Route
from llmgw.model.keys import Key
from llmgw.model.record import Record

NODES = "nodes"
SAMPLES = "samples"
REPLICAS = "replicas"
ROUTES = "routes"
MODELS = "models"
KEYS = "keys"
SETTINGS = "settings"
EVENTS = "events"
JOBS = "jobs"
TOPICS = (NODES, SAMPLES, REPLICAS, ROUTES, MODELS, KEYS, SETTINGS, EVENTS, JOBS)


class Position(Record, frozen=True, kw_only=True):
    """A place in the feed. Another epoch than the feed's means: list again."""

    epoch: str
    number: int


class RouteChange(Record, frozen=True, kw_only=True, tag_field="kind", tag="route"):
    """A route is now this."""

    value: Route


class KeyChange(Record, frozen=True, kw_only=True, tag_field="kind", tag="key"):
    """A key is now this."""

    value: Key


class ConfigChange(Record, frozen=True, kw_only=True, tag_field="kind", tag="config"):
    """The gateways' settings are now this."""

    value: GatewayConfig


class JsonChange(Record, frozen=True, kw_only=True, tag_field="kind", tag="json"):
    """A record of any other topic, in the JSON form that the admin API gives it."""

    value: bytes


class Change(Record, frozen=True, kw_only=True):
    """One object's latest state, or its end: a tombstone when `record` is None."""

    topic: str
    id: str
    record: RouteChange | KeyChange | ConfigChange | JsonChange | None = None


class Follow(Record, frozen=True, kw_only=True):
    """What a follower wants, and where it stopped; no position: list first."""

    topics: tuple[str, ...]
    position: Position | None = None


class Batch(Record, frozen=True, kw_only=True):
    """Changes up to `position`. `listing`: forget all that was known of these topics first.

    A listing may come in several batches; `more` says that another follows.
    """

    position: Position
    topics: tuple[str, ...]
    listing: bool = False
    more: bool = False
    changes: tuple[Change, ...] = ()
