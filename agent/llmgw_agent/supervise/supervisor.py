"""All shards of this node."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, Refused, TimedOut
from llmgw.base.log import LogRing, get
from llmgw.base.secrets import Secret
from llmgw.base.world import Files, Http, Processes, ProcessSeen
from llmgw.model.shard import EXITED, FAILED, FETCHING, STARTING, STOPPING, ShardSpec, ShardStatus
from llmgw_agent.engines.adapter import Adapter, NodeFacts
from llmgw_agent.parse.engine_metrics import EngineUse
from llmgw_agent.supervise.adoption import Adopted, Undescribed, sort_out
from llmgw_agent.supervise.book import Book, Entry, Kept, KeptProcess, parse_source
from llmgw_agent.supervise.engine_log import EngineLog
from llmgw_agent.supervise.environment import STATE
from llmgw_agent.supervise.held import check_held
from llmgw_agent.supervise.launch import save
from llmgw_agent.supervise.life import Life
from llmgw_agent.supervise.means import Means, Programs, Weights
from llmgw_agent.supervise.ports import PortRange, is_free
from llmgw_agent.supervise.prepare import OptionsKnown
from llmgw_agent.supervise.shard import Report, Shard
from llmgw_agent.supervise.watchers import Watchers

log = get(__name__)

FAILURES_KEPT = 20
"""Ended shards whose logs stay readable."""

FAILURE_SHOWN = 600.0
"""Seconds for which a failure is told again at each register: a report may have been lost."""

_NOT_KNOWN = "(not known)"


class Supervisor:
    """Starts, watches, adopts and ends shards; tells every transition once.

    Used as a context: leaving it ends the watching and no engine. `adopt` comes first.

    Args:
        processes: the machine's processes.
        files: the machine's files.
        http: reaches engines directly, through no proxy.
        clock: the time.
        adapters: engines by name.
        programs: the engines' programs on this node.
        weights: the weights on this node.
        state_dir: the agent's state directory; its own processes are known by it.
        cluster: the cluster's name.
        node: this node's id.
        report: takes each status; must neither block nor raise.
        host: what engines listen on.
        address: where others reach them; `host` unless given.
        ports: the range they take ports from.
        environ: the agent's environment.
        user: who engines run as; None: who the agent runs as.
        facts: what the node is known to have now.
        port_free: whether a port of `host` could be listened on.
        who_holds: in words, who else has memory on these devices.
        stuck_after: as in `Means`.
    """

    def __init__(
        self,
        *,
        processes: Processes,
        files: Files,
        http: Http,
        clock: Clock,
        adapters: Mapping[str, Adapter],
        programs: Programs,
        weights: Weights,
        state_dir: Path,
        cluster: str,
        node: str,
        report: Report,
        host: str,
        ports: PortRange,
        environ: Mapping[str, str],
        address: str | None = None,
        user: str | None = None,
        facts: Callable[[], NodeFacts] = NodeFacts,
        port_free: Callable[[int], bool] | None = None,
        who_holds: Callable[[tuple[str, ...]], str | None] = lambda _: None,
        stuck_after: float | None = None,
    ) -> None:
        state_dir = state_dir.resolve()
        self._clock = clock
        self._adapters = adapters
        self._report = report
        self._files = files
        self._book = Book(files, state_dir)
        self._shards: dict[tuple[str, int], Shard] = {}
        self._options = OptionsKnown()
        self._watchers = Watchers()
        self._means = Means(
            processes=processes,
            files=files,
            http=http,
            clock=clock,
            programs=programs,
            weights=weights,
            book=self._book,
            cluster=cluster,
            node=node,
            state=str(state_dir),
            environ=environ,
            host=host,
            address=address or host,
            ports=ports,
            user=user,
            facts=facts,
            port_free=port_free or (lambda port: is_free(host, port)),
            ports_held=self._ports_held,
            who_holds=who_holds,
            stuck_after=stuck_after,
        )

    async def __aenter__(self) -> "Supervisor":
        await self._watchers.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._watchers.close()

    async def adopt(self) -> None:
        """Take over what a former agent left: called once, before anything is started.

        Shards that run and are described go on under this agent. Processes of this agent that no
        record describes are ended; until they are gone they are among `statuses`, with the devices
        that their environment names. Shards that ended meanwhile are told as failed.
        """
        entries = self._book.read()
        processes = await self._means.processes.with_environ(STATE, self._means.state)
        processes = (*processes, *await self._hanging(entries))
        found = sort_out(entries, processes, own_group=os.getpgrp())
        for entry in found.unreadable:
            log.warning("a shard's record can't be read", record=entry.words)
        for adopted in found.adopted:
            self._take_over(adopted)
        for kept in found.gone:
            self._note_gone(kept)
        for one in found.undescribed:
            self._end(one)
        for entry in found.unreadable:
            self._forget_unreadable(entry.directory)
        self._prune()

    async def _hanging(self, entries: Iterable[Entry]) -> tuple[ProcessSeen, ...]:
        """Return the recorded processes that hang in the kernel, so that nothing names them.

        Pid and start time say which process one is; what it was started with is the record's.
        """
        found = []
        for kept in (entry.kept for entry in entries):
            if kept is None or kept.ended or kept.process is None:
                continue
            known = kept.process
            try:
                await self._means.processes.inspect(known.pid)
            except TimedOut:
                there = self._means.processes.look(known.pid)
                if there is not None and there.started == known.started:
                    seen = ProcessSeen(
                        known.pid, known.started, there.group, argv=known.argv, environ={}
                    )
                    found.append(seen)
        return tuple(found)

    async def start(self, spec: ShardSpec, key: str | None) -> None:
        """Start a shard; one that is there already changes nothing and tells how it is.

        Args:
            spec: all that is started.
            key: the replica's key; None: it starts without one.

        Raises:
            Refused: the id is none that llmgw makes, or another shard holds what it is given.
        """
        place = (spec.replica, spec.rank)
        secret = Secret(key) if key else None
        if (known := self._shards.get(place)) is not None:
            log.info("start of a shard that is there", shard=known.name, state=known.state)
            self._complete_key(known, secret)
            known.tell()
            return
        check_held(spec, self._shards.values(), self._means.facts)
        shard = Shard(
            spec,
            state=STARTING if spec.source is None else FETCHING,
            adapter=self._adapters.get(spec.engine),
            key=secret,
            log=EngineLog(self._files, self._book.log_path(*place), secret),
            clock=self._clock,
            report=self._report,
            keep=self._keep,
        )
        if secret is None:
            log.warning("an engine is started without a key", shard=shard.name)
        self._shards[place] = shard
        shard.tell()
        self._watchers.watch(self._live(shard, secret))

    async def stop(self, replica: str, rank: int, reason: str | None) -> None:
        """Begin to stop a shard; it is told as stopped when its processes are gone.

        Raises:
            NotFound: there is no such shard on this node.
        """
        shard = self._shards.get((replica, rank))
        if shard is None:
            raise NotFound(f"{replica}/{rank}: no such shard on this node")
        if shard.ended:
            shard.tell()
        else:
            shard.want_stop(reason)

    def uses(self) -> dict[tuple[str, int], EngineUse]:
        """Return what engines said lately that they have to do, by replica and rank."""
        return {place: one.use for place, one in self._shards.items() if one.use is not None}

    def statuses(self) -> tuple[ShardStatus, ...]:
        """Return everything that runs or holds something, and recent failures; with whole specs."""
        oldest = self._clock.now() - FAILURE_SHOWN
        return tuple(
            shard.status(with_spec=True)
            for shard in self._shards.values()
            if not shard.ended or (shard.state == FAILED and shard.since >= oldest)
        )

    def sources(self) -> tuple[str, ...]:
        """Return the shards whose logs can be read, as `replica/rank`."""
        return tuple(shard.name for shard in self._shards.values())

    def log(self, source: str, lines: int) -> tuple[str, ...]:
        """Return a shard's last lines, oldest first.

        Raises:
            NotFound: there is no such shard.
        """
        return self._ring(source).tail(lines)

    def follow_log(self, source: str, follower: Callable[[str], None]) -> Callable[[], None]:
        """Hand every later line of a shard to `follower`; the returned function ends it.

        Raises:
            NotFound: there is no such shard.
        """
        return self._ring(source).follow(follower)

    def _ring(self, source: str) -> LogRing:
        shard = self._shards.get(parse_source(source))
        if shard is None:
            known = ", ".join(self.sources()) or "none"
            raise NotFound(f"{source}: no such shard on this node", hint=f"shards: {known}")
        return shard.log.ring

    async def _live(self, shard: Shard, key: Secret | None) -> None:
        if key is not None:
            self._save_key(shard, key)
        await Life(shard, self._means, self._options, self._watchers).run_new()
        self._prune()

    def _complete_key(self, shard: Shard, key: Secret | None) -> None:
        """Give an adopted shard the key whose file was lost."""
        if key is not None and shard.key is None and shard.adopted and not shard.ended:
            shard.key = shard.log.key = key
            self._save_key(shard, key)

    def _save_key(self, shard: Shard, key: Secret) -> None:
        try:
            self._book.save_key(shard.spec.replica, shard.spec.rank, key)
        except OSError as error:
            log.warning("a replica's key can't be kept", shard=shard.name, error=str(error))

    def _take_over(self, adopted: Adopted) -> None:
        kept = adopted.kept
        place = (kept.spec.replica, kept.spec.rank)
        shard = Shard.from_kept(
            kept,
            adapter=self._adapters.get(kept.spec.engine),
            key=adopted.key,
            log=EngineLog(self._files, self._book.log_path(*place), adopted.key),
            clock=self._clock,
            report=self._report,
            keep=self._keep,
        )
        shard.adopted = True
        shard.process, shard.pid = adopted.process, adopted.process.pid
        if kept.keyed and adopted.key is None:
            log.warning("an adopted engine's key is lost", shard=shard.name)
        log.info("shard is adopted", shard=shard.name, pid=shard.pid, state=shard.state)
        self._shards[place] = shard
        self._watchers.watch(self._watch(shard))

    async def _watch(self, shard: Shard) -> None:
        await Life(shard, self._means, self._options, self._watchers).run_adopted()
        self._prune()

    def _note_gone(self, kept: Kept) -> None:
        """Tell of a shard that ended while no agent watched; without a process it is forgotten."""
        spec = kept.spec
        if kept.process is None or kept.state == STOPPING:
            self._forget(spec.replica, spec.rank)
            return
        shard = Shard.from_kept(
            kept,
            adapter=self._adapters.get(spec.engine),
            key=None,
            log=EngineLog(self._files, self._book.log_path(spec.replica, spec.rank)),
            clock=self._clock,
            report=self._report,
            keep=self._keep,
        )
        shard.log.resume()
        shard.log.finish()
        cause, words = _why_gone(shard)
        shard.move(FAILED, words, cause)
        self._shards[(spec.replica, spec.rank)] = shard
        with suppress(OSError):
            self._book.remove_key(spec.replica, spec.rank)
        self._keep(shard)

    def _end(self, one: Undescribed) -> None:
        seen = one.leader
        replica = self._free_name(one)
        log.warning("a process of this agent that nothing describes is ended", process=one.words)
        shard = Shard(
            ShardSpec(
                replica=replica,
                rank=one.rank,
                model=_NOT_KNOWN,
                profile=_NOT_KNOWN,
                fingerprint="",
                engine=_NOT_KNOWN,
                devices=one.devices,
            ),
            state=STOPPING,
            adapter=None,
            key=None,
            log=EngineLog(self._files, self._means.book.log_path("unknown", 0)),
            clock=self._clock,
            report=self._report,
            keep=self._keep,
        )
        shard.reason = f"ended, because nothing describes it: {one.words}"
        shard.pid = seen.group
        if seen.pid == seen.group:
            shard.process = KeptProcess(pid=seen.pid, started=seen.started, argv=seen.argv)
        self._shards[(replica, one.rank)] = shard
        self._watchers.watch(self._end_undescribed(shard))

    def _free_name(self, one: Undescribed) -> str:
        """Return the replica that a process says it is of, unless that can't be or is there."""
        made_up = f"unknown-{one.leader.pid}"
        if one.replica is None or (one.replica, one.rank) in self._shards:
            return made_up
        try:
            self._book.log_path(one.replica, one.rank)
        except Refused:
            return made_up
        return one.replica

    async def _end_undescribed(self, shard: Shard) -> None:
        await Life(shard, self._means, self._options, self._watchers).run_undescribed()
        self._prune()

    def _forget_unreadable(self, directory: str) -> None:
        replica, _, rank = directory.rpartition(".")
        self._forget(replica, int(rank))

    def _forget(self, replica: str, rank: int) -> None:
        """Remove what is kept of a shard; a disk that is read-only or full stops nothing."""
        try:
            self._book.remove(replica, rank)
        except (OSError, LlmgwError) as error:
            name = f"{replica}/{rank}"
            log.warning("a shard's record can't be removed", shard=name, error=str(error))

    def _prune(self) -> None:
        """Forget all but the latest ended shards, in memory and on disk."""
        ended = sorted((s for s in self._shards.values() if s.ended), key=lambda s: s.since)
        for shard in ended[: max(0, len(ended) - FAILURES_KEPT)]:
            del self._shards[(shard.spec.replica, shard.spec.rank)]
            self._forget(shard.spec.replica, shard.spec.rank)

    def _keep(self, shard: Shard) -> None:
        save(shard, self._means)

    def _ports_held(self) -> frozenset[int]:
        shards = self._shards.values()
        return frozenset(s.port for s in shards if s.port is not None and not s.ended)


def _why_gone(shard: Shard) -> tuple[str, str]:
    found = shard.adapter.cause_of(shard.log.last(200), None) if shard.adapter else None
    unseen = "the engine ended while no agent watched"
    return (EXITED, unseen) if found is None else (found[0], f"{found[1]} ({unseen})")
