"""What the control plane asks, and what this agent answers, in its own words when it declines."""

from collections.abc import Callable
from typing import Protocol

from llmgw.base.errors import LlmgwError, NotFound
from llmgw.base.ids import shard_id
from llmgw.base.log import get
from llmgw.model.catalog import HubSource, MirrorSource, PackageSource, PathSource, UrlSource
from llmgw.model.commands import (
    FEATURE_OF,
    NVLINK_DOMAIN,
    Accepted,
    ApplySettings,
    CancelRequest,
    Command,
    Declined,
    FetchWeights,
    LogsRead,
    ReadLogs,
    RemoveWeights,
    Reply,
    StartShard,
    StopShard,
    WeightsRemoved,
    WeightsState,
)
from llmgw.model.settings import NodeSettings
from llmgw.model.shard import ShardSpec, ShardStatus
from llmgw.model.weights import cache_name
from llmgw_agent.logs import EngineLogs, Logs
from llmgw_agent.remembered import Remembered

log = get(__name__)

FEATURES = tuple(sorted({*FEATURE_OF.values(), NVLINK_DOMAIN}))
"""The requests that this agent answers, and what else it can do."""

Answer = Accepted | LogsRead | WeightsRemoved | Declined | WeightsState


class Shards(EngineLogs, Protocol):
    """What starts and stops shards."""

    async def start(self, spec: ShardSpec, key: str | None) -> None:
        """Begin to start a shard."""
        ...

    async def stop(self, replica: str, rank: int, reason: str | None) -> None:
        """Begin to stop a shard; NotFound when there is none."""
        ...

    def statuses(self) -> tuple[ShardStatus, ...]:
        """Return everything that runs, with whole specs."""
        ...


class HeldWeights(Protocol):
    """What has weights here, and removes them."""

    def state(
        self,
        source: PackageSource | HubSource | UrlSource | PathSource | MirrorSource,
        *,
        check_only: bool,
    ) -> WeightsState:
        """Say how far a source's weights are; they are checked or fetched from now on."""
        ...

    async def remove(self, names: tuple[str, ...], in_use: frozenset[str]) -> WeightsRemoved:
        """Remove sets by cache name."""
        ...


class Following(Protocol):
    """What a stream does for requests that go on after their answer."""

    def follow(self, request: str, source: str | None) -> None:
        """Send later lines of a log under a request's id; NotFound when there is no such log."""
        ...

    def unfollow(self, request: str) -> bool:
        """End that; False when nothing follows under that id."""
        ...


class Commands:
    """Answers commands. A term that is lower than the highest ever seen is refused.

    Args:
        version: llmgw's.
        remembered: the highest term.
        shards: starts and stops.
        weights: checks, fetches, removes.
        logs: reads.
        apply: takes newer settings.
    """

    def __init__(
        self,
        version: str,
        remembered: Remembered,
        shards: Shards,
        weights: HeldWeights,
        logs: Logs,
        apply: Callable[[NodeSettings], None],
    ) -> None:
        self._version = version
        self._remembered = remembered
        self._shards = shards
        self._weights = weights
        self._logs = logs
        self._apply = apply

    async def answer(self, command: Command, following: Following) -> Reply:
        """Return the answer to a command."""
        stale = self._stale(command.term)
        if stale is not None:
            return Reply(id=command.id, answer=stale)
        try:
            answer = await self._do(command, following)
        except LlmgwError as error:
            not_found = isinstance(error, NotFound)
            answer = Declined(words=error.message, hint=error.hint, not_found=not_found)
        except Exception as error:
            # A request that can't be served must cost its own answer alone, not the stream.
            log.exception("command failed", id=command.id)
            answer = Declined(words=f"the agent failed on it: {type(error).__name__}: {error}")
        return Reply(id=command.id, answer=answer)

    def _stale(self, term: int) -> Declined | None:
        highest = self._remembered.term
        if term < highest:
            log.warning("command of an older term is declined", term=term, highest=highest)
            return Declined(
                words=f"the command is of term {term}, and this agent has seen term {highest}: "
                "another control plane leads since",
                stale_term=highest,
            )
        self._remembered.saw_term(term)
        return None

    async def _do(self, command: Command, following: Following) -> Answer:
        match command.request:
            case StartShard(spec=spec, key=key):
                log.info("start_shard", shard=shard_id(spec.replica, spec.rank), term=command.term)
                await self._shards.start(spec, key)
            case StopShard(replica=replica, rank=rank, reason=reason):
                log.info("stop_shard", shard=shard_id(replica, rank), term=command.term, why=reason)
                await self._shards.stop(replica, rank, reason)
            case ApplySettings(settings=settings):
                return self._take_settings(settings)
            case ReadLogs() as request:
                return self._read_logs(command.id, request, following)
            case CancelRequest(request=request):
                if not following.unfollow(request):
                    raise NotFound(f"nothing is followed under request {request}")
            case RemoveWeights(names=names):
                return await self._weights.remove(names, self._in_use())
            case FetchWeights() as request:
                return self._have_weights(request)
            case None:
                return self._unknown("request")
        return Accepted()

    def _have_weights(self, request: FetchWeights) -> Answer:
        if request.source is None:
            return self._unknown("kind of source")
        return self._weights.state(request.source, check_only=request.check_only)

    def _unknown(self, what: str) -> Declined:
        return Declined(
            words=f"this agent (llmgw {self._version}) does not know that {what}",
            hint="upgrade the agent",
        )

    def _take_settings(self, settings: NodeSettings) -> Accepted:
        known = self._remembered.settings
        if known is not None and settings.version < known.version:
            return Accepted(words=f"version {known.version} is here already")
        self._apply(settings)
        return Accepted()

    def _read_logs(self, request: str, wanted: ReadLogs, following: Following) -> LogsRead:
        read = self._logs.read(wanted)
        if wanted.follow:
            following.follow(request, wanted.source)
        return read

    def _in_use(self) -> frozenset[str]:
        """Return the cache names of every source that a shard on this node was started with."""
        specs = [status.spec for status in self._shards.statuses() if status.spec is not None]
        sources = [spec.source for spec in specs if spec.source is not None]
        sources += [adapter.source for spec in specs for adapter in spec.adapters]
        return frozenset(cache_name(source) for source in sources)
