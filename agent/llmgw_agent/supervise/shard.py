"""One shard's state: where it is, which way it may go, and who is told."""

import asyncio
from collections.abc import Callable
from typing import Final

from llmgw.base.clock import Clock
from llmgw.base.log import get
from llmgw.base.secrets import Secret
from llmgw.model.shard import (
    FAILED,
    FETCHING,
    READY,
    STARTING,
    STOPPED,
    STOPPING,
    STUCK,
    ComputeReport,
    Progress,
    ShardSpec,
    ShardStatus,
)
from llmgw_agent.engines.adapter import Adapter
from llmgw_agent.parse.engine_metrics import EngineUse
from llmgw_agent.supervise.book import Kept, KeptProcess
from llmgw_agent.supervise.engine_log import EngineLog

log = get(__name__)

Report = Callable[[ShardStatus], None]

LAST_LINES = 20
"""Lines of output that a failure carries, and what is stuck."""

_WAYS: Final = {
    FETCHING: frozenset({STARTING, STOPPING, FAILED}),
    STARTING: frozenset({READY, STOPPING, FAILED}),
    READY: frozenset({STUCK, STOPPING, FAILED}),
    STUCK: frozenset({READY, STOPPING, FAILED}),
    STOPPING: frozenset({STOPPED, FAILED}),
    STOPPED: frozenset[str](),
    FAILED: frozenset[str](),
}
"""Where each state may lead. `failed` and `stopped` mean that no process is left."""

ENDED = frozenset({STOPPED, FAILED})

_PROGRESS_EVERY = 1.0


class Shard:
    """What is known of one shard, and its way from state to state.

    Each transition is told once, the first with the whole spec. Progress is told without being a
    transition: it changes neither the state nor since when it holds. Once there is something to
    adopt, a state is kept before it is told: whoever heard of it finds the next agent knowing it.
    """

    def __init__(
        self,
        spec: ShardSpec,
        *,
        state: str,
        adapter: Adapter | None,
        key: Secret | None,
        log: EngineLog,
        clock: Clock,
        report: Report,
        keep: Callable[["Shard"], None],
    ) -> None:
        self.spec = spec
        self.adapter = adapter
        self.key = key
        self.log = log
        self.state = state
        self.since = clock.now()
        self.reason: str | None = None
        self.cause: str | None = None
        self.process: KeptProcess | None = None
        self.pid: int | None = None
        self.argv: tuple[str, ...] | None = None
        self.launched: float | None = None
        self.address: str | None = None
        self.port: int | None = None
        self.progress: Progress | None = None
        self.compute: ComputeReport | None = None
        self.keyed: bool | None = None
        self.adopted: bool | None = None
        self.use: EngineUse | None = None
        """What its engine said last that it has to do; None: nothing, or nothing lately."""
        self.was_ready = False
        self.term_sent = False
        self.stop_wanted = asyncio.Event()
        self.stop_reason: str | None = None
        self._clock = clock
        self._report = report
        self._keep = keep
        self._told = False
        self._progress_told = float("-inf")

    @staticmethod
    def from_kept(
        kept: Kept,
        *,
        adapter: Adapter | None,
        key: Secret | None,
        log: EngineLog,
        clock: Clock,
        report: Report,
        keep: Callable[["Shard"], None],
    ) -> "Shard":
        """Return a shard as a former agent wrote it down."""
        shard = Shard(
            kept.spec,
            state=kept.state,
            adapter=adapter,
            key=key,
            log=log,
            clock=clock,
            report=report,
            keep=keep,
        )
        shard.since = kept.since
        shard.reason, shard.cause = kept.reason, kept.cause
        shard.process = kept.process
        shard.pid = kept.process.pid if kept.process else None
        shard.argv = kept.argv
        shard.launched = kept.launched
        shard.address, shard.port = kept.address, kept.port
        shard.compute, shard.keyed = kept.compute, kept.keyed
        shard.was_ready, shard.term_sent = kept.ready, kept.term_sent
        return shard

    @property
    def name(self) -> str:
        """Return its id as people write it."""
        return f"{self.spec.replica}/{self.spec.rank}"

    @property
    def ended(self) -> bool:
        """Say whether nothing of it is left."""
        return self.state in ENDED

    def tell(self) -> None:
        """Tell how it is now: for a first state, and for who asks again."""
        first, self._told = not self._told, True
        self._report(self.status(with_spec=first))

    def move(self, state: str, reason: str | None = None, cause: str | None = None) -> None:
        """Go to another state and tell it once.

        Raises:
            ValueError: no way leads there; a bug of the caller's.
        """
        if state not in _WAYS[self.state]:
            raise ValueError(f"{self.name}: no way from {self.state} to {state}")
        self.state, self.since = state, self._clock.now()
        self.reason, self.cause = reason, cause
        self.progress = None
        if state in ENDED:
            self.pid, self.process = None, None
        elif self.argv is not None:
            self._keep(self)
        level = log.warning if state == FAILED else log.info
        level(f"shard is {state}", shard=self.name, reason=reason, cause=cause)
        self.tell()

    def admit(self, reason: str, cause: str) -> None:
        """Say what holds a state up, without leaving it."""
        if (reason, cause) != (self.reason, self.cause):
            self.reason, self.cause = reason, cause
            log.warning("shard is held up", shard=self.name, reason=reason)
            self.tell()

    def note_progress(self, progress: Progress) -> None:
        """Tell how far a long step is: at most each second, and when its words change."""
        changed = self.progress is None or self.progress.words != progress.words
        self.progress = progress
        now = self._clock.monotonic()
        if changed or now - self._progress_told >= _PROGRESS_EVERY:
            self._progress_told = now
            self.tell()

    def note_use(self, use: EngineUse | None) -> None:
        """Note what the engine has to do; it goes up with the heartbeat."""
        self.use = use

    def stick(self, words: str) -> None:
        """Say that the engine is there and does nothing, with what it said last."""
        if self.state == READY:
            self.move(STUCK, words)

    def want_stop(self, reason: str | None) -> None:
        """Ask for its end; asking again changes nothing."""
        if not self.stop_wanted.is_set():
            self.stop_reason = reason
            self.stop_wanted.set()

    def status(self, *, with_spec: bool) -> ShardStatus:
        """Return what is told of it."""
        return ShardStatus(
            replica=self.spec.replica,
            rank=self.spec.rank,
            state=self.state,
            since=self.since,
            reason=self.reason,
            cause=self.cause,
            pid=self.pid,
            address=self.address,
            port=self.port,
            progress=self.progress,
            compute=self.compute,
            last_lines=self.log.last(LAST_LINES) if self.state in {FAILED, STUCK} else None,
            spec=self.spec if with_spec else None,
            keyed=self.keyed,
            adopted=self.adopted,
            served_name=self.adapter.served_name(self.spec) if self.adapter else None,
        )

    def kept(self) -> Kept:
        """Return what a later agent has to know."""
        return Kept(
            spec=self.spec,
            state=self.state,
            since=self.since,
            argv=self.argv,
            process=self.process,
            launched=self.launched,
            address=self.address,
            port=self.port,
            compute=self.compute,
            keyed=self.keyed,
            ready=self.was_ready,
            term_sent=self.term_sent,
            reason=self.reason,
            cause=self.cause,
            ended=self.ended,
        )
