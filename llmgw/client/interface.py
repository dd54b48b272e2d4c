"""What both clients are, so that callers and their tests need no network.

A path is written as in the reference, without `/api/v1`: `/nodes`, `/models/qwen/small`. What comes
back is decoded JSON; what goes up is anything that `json` can write. Every refusal is raised as a
subclass of `LlmgwError`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol
from urllib.parse import quote

if TYPE_CHECKING:
    from llmgw.model.history import NodeHistory

PREFIX = "/api/v1"

Decoded = Any
"""What an answer's JSON decodes to; the reference (docs/reference/api.json) tells its shape."""

WHATEVER: Final = "*"
"""In place of a version: replace whatever is there."""
Version = int | Literal["*"] | None
"""What was read of what is replaced, sent as If-Match; None: it has no version."""

LIVE = "live"
RECONNECTING = "reconnecting"
STALE = "stale"


class Connection(NamedTuple):
    """How a watch is doing. Times in wall-clock seconds."""

    state: str
    """`live`, `reconnecting`, or `stale`: lost for so long that what is shown is old."""
    since: float
    """When the state began."""
    heard: float | None
    """When anything was last heard; None: never."""
    words: str = ""
    """Why it is not live."""


class Change(NamedTuple):
    """One object's newest state; `record` None: it is gone."""

    topic: str
    id: str
    record: Any | None


class WatchBatch(NamedTuple):
    """What changed, or how the connection is (then without changes)."""

    connection: Connection
    changes: tuple[Change, ...] = ()
    listing: bool = False
    """Forget all that was known of the watched topics first."""


class LogBatch(NamedTuple):
    """Lines of a log, oldest first. `dropped`: how many were lost to a slow reader before them."""

    lines: tuple[str, ...]
    dropped: int = 0


class Client(Protocol):
    """One request at a time, for commands that ask and end."""

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Decoded:
        """Return what is at a path. Query values that are None are left out."""
        ...

    def put(self, path: str, body: object, *, version: Version = None) -> Decoded:
        """Replace what is at a path, of which `version` was read."""
        ...

    def post(self, path: str, body: object = None) -> Decoded:
        """Make something at a path."""
        ...

    def delete(self, path: str) -> Decoded:
        """Remove what is at a path."""
        ...

    def history(self, node: str, series: Sequence[str] = (), minutes: int = 60) -> "NodeHistory":
        """Return how a node was in the last minutes; `series`: which measures, empty for all."""
        ...


class WatchingClient(Protocol):
    """What stays connected: the console, `--watch`, `logs --follow`."""

    async def get(self, path: str, query: Mapping[str, object] | None = None) -> Decoded:
        """Return what is at a path. Query values that are None are left out."""
        ...

    async def put(self, path: str, body: object, *, version: Version = None) -> Decoded:
        """Replace what is at a path, of which `version` was read."""
        ...

    async def post(self, path: str, body: object = None) -> Decoded:
        """Make something at a path."""
        ...

    async def delete(self, path: str) -> Decoded:
        """Remove what is at a path."""
        ...

    async def history(
        self, node: str, series: Sequence[str] = (), minutes: int = 60
    ) -> "NodeHistory":
        """Return how a node was in the last minutes; `series`: which measures, empty for all."""
        ...

    def watch(self, topics: Sequence[str]) -> AsyncIterator[WatchBatch]:
        """List the topics once, then yield every change until the caller stops.

        A lost control plane is an item of the iteration, not an error: it reconnects for ever. A
        token that is not known, or may not read, is raised.
        """
        ...

    def follow_logs(
        self, node: str, source: str | None = None, lines: int = 100
    ) -> AsyncIterator[LogBatch]:
        """Yield the last lines of a node or of a shard on it, then those that come."""
        ...


def target(path: str, query: Mapping[str, object] | None = None) -> str:
    """Return the request target of a path of the reference and its query."""
    whole = (
        path
        if path.startswith((f"{PREFIX}/", "/healthz", "/leader", "/metrics"))
        else PREFIX + path
    )
    text = "/".join(_segment(part) for part in whole.split("/"))
    said = {name: value for name, value in (query or {}).items() if value is not None}
    if not said:
        return text
    return text + "?" + "&".join(f"{quote(name, safe='')}={_value(v)}" for name, v in said.items())


def _segment(part: str) -> str:
    # A name may be `a/../b`; clients on the way would resolve the dots.
    return (
        part.replace(".", "%2E") if part in {".", ".."} else quote(part, safe=":@!$&'()*+,;=~-._")
    )


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(quote(str(one), safe="") for one in value)
    return quote(str(value), safe="")
