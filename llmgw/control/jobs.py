"""Jobs: what was asked for, how far it is, in memory for the feed and in the store for the next.

How far a fetch is changes each second; the store is told of that now and then, and of each step
at once: a new leader goes on from the step, and asks how far it is.
"""

import asyncio
import random
from collections.abc import Callable

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import Conflict, NotFound, Refused
from llmgw.base.ids import crockford
from llmgw.control.catalog import Catalog
from llmgw.control.feed import Feed
from llmgw.model.catalog import Model
from llmgw.model.catalog_check import check_model
from llmgw.model.events import AuditEntry
from llmgw.model.faulty import Faulty
from llmgw.model.feed import JOBS
from llmgw.model.jobs import DONE, Job, JobStep, ServeJob
from llmgw.plan.serving.advance import begin, cancelled, hopeless, retried
from llmgw.store.interface import Store
from llmgw.store.rules.jobs import dropped

ACTIVE_MOST = 100
"""Jobs that go on at once; each asks nodes once a second."""

WRITTEN_EACH = 15.0
"""Seconds after which the store is told how far a step is, though no step changed."""


class Jobs:
    """All jobs that go on, and the newest of those that are over.

    Invariant: at most one job that goes on is about a subject.

    Args:
        store: where jobs are kept.
        catalog: what a model's version is when a job begins.
        clock: the time of a change.
        rng: for ids.
        feed: marked at each change.
    """

    def __init__(
        self, store: Store, catalog: Catalog, clock: Clock, rng: random.Random, feed: Feed
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._clock = clock
        self._rng = rng
        self._feed = feed
        self._jobs: dict[str, Job] = {}
        self._written: dict[str, tuple[Job, float]] = {}
        """What the store has of those that go on, and when it was told. Monotonic seconds."""
        self._changing = asyncio.Lock()
        self._listeners: list[Callable[[], None]] = []
        feed.serve(JOBS, lambda: tuple(self._jobs), self._jobs.get)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a job begins, or goes on again; it must neither block nor raise."""
        self._listeners.append(listener)

    async def load(self) -> None:
        """Read the jobs from the store: what it does not name is not there."""
        async with self._changing:
            stored = {job.id: job for job in await self._store.jobs()}
            gone = self._jobs.keys() - stored.keys()
            changed = [one for one, job in stored.items() if self._jobs.get(one) != job]
            for one in gone:
                del self._jobs[one]
            self._jobs.update({one: stored[one] for one in changed})
            now = self._clock.monotonic()
            self._written = {one: (job, now) for one, job in stored.items() if not job.over}
            for one in (*gone, *changed):
                self._feed.mark(JOBS, one)

    def all(self) -> tuple[Job, ...]:
        """Return all jobs, newest first."""
        return tuple(
            sorted(self._jobs.values(), key=lambda job: (job.created, job.id), reverse=True)
        )

    def active(self) -> tuple[Job, ...]:
        """Return the jobs that go on, oldest first."""
        return tuple(job for job in reversed(self.all()) if not job.over)

    def get(self, job_id: str) -> Job:
        """Return one job.

        Raises:
            NotFound: there is none of that id.
        """
        job = self._jobs.get(job_id)
        if job is None:
            raise NotFound(
                f"no job {job_id!r}: there is none, or it ended long ago",
                hint="list them: llmgw ctl jobs",
            )
        return job

    async def serve(
        self, model: Model, version: int | None, *, actor: str, within: float | None = None
    ) -> Job:
        """Begin to serve a model.

        Args:
            model: as it is to be in the catalog.
            version: of the catalog, that the actor saw; 0: not there; None: whatever is there.
            actor: who asks for it.
            within: seconds after which it fails unless it is done; None: no such limit.

        Raises:
            Faulty: every problem of the model, each with its path.
            Conflict: another job is about it, or the catalog has another version.
            Refused: too many jobs go on.
        """
        if problems := check_model(model):
            raise Faulty(f"model {model.name!r}", problems)
        async with self._changing:
            self._check_free(model.name)
            entry = self._catalog.get(model.name)
            there = entry.version if entry is not None else 0
            if version is not None and version != there:
                raise Conflict(
                    f"{model.name}: the catalog has version {there}, not {version}",
                    hint="somebody changed it meanwhile: look again, then repeat it",
                )
            # As the catalog will have it: they are compared.
            whole = msgspec.convert(msgspec.to_builtins(model), Model)
            spec = ServeJob(model=whole, version=there, within=within)
            job = begin(self._new_id(), spec, actor=actor, now=self._clock.now())
            await self._keep(job)
        self._tell()
        return job

    async def cancel(self, job_id: str, *, actor: str) -> Job:
        """End a job where it is; what is in the catalog already stays there.

        Raises:
            NotFound: there is none of that id.
            Conflict: it is over.
        """
        async with self._changing:
            job = self.get(job_id)
            if job.over:
                raise Conflict(f"{job.id} is over already: {job.state}")
            now = self._clock.now()
            entry = self._catalog.get(job.subject)
            after = cancelled(job, entry, actor=actor, now=now)
            await self._audit("job.cancel", job, after, actor)
            await self._keep(after)
        self._tell()
        return after

    async def retry(self, job_id: str, *, actor: str) -> Job:
        """Let a job that failed or was cancelled go on from the step it was at.

        Raises:
            NotFound: there is none of that id.
            Conflict: it goes on, it is done, another job is about the same, or the catalog has
                something else under that name by now.
            Refused: too many jobs go on.
        """
        async with self._changing:
            job = self.get(job_id)
            if not job.over:
                raise Conflict(f"{job.id} goes on: it is {job.state}")
            if job.state == DONE:
                raise Conflict(f"{job.id} is done: nothing is left to try again")
            self._check_free(job.subject)
            if (no := hopeless(job, self._catalog.get(job.subject))) is not None:
                words, hint = no
                raise Conflict(f"{job.id} can't go on: {words}", hint=hint)
            after = retried(job, now=self._clock.now())
            await self._audit("job.retry", job, after, actor)
            await self._keep(after)
        self._tell()
        return after

    async def note(self, before: Job, after: Job) -> bool:
        """Keep how far a job is now; False: somebody else changed it meanwhile, nothing is kept."""
        async with self._changing:
            if self._jobs.get(before.id) is not before:
                return False
            written, at = self._written.get(before.id, (None, 0.0))
            soon = self._clock.monotonic() - at < WRITTEN_EACH
            if written is not None and soon and _in_steps(written) == _in_steps(after):
                self._jobs[after.id] = after
                self._feed.mark(JOBS, after.id)
            else:
                await self._keep(after)
            return True

    async def _keep(self, job: Job) -> None:
        await self._store.put_job(job)
        self._jobs[job.id] = job
        self._written[job.id] = job, self._clock.monotonic()
        self._feed.mark(JOBS, job.id)
        if job.over:
            del self._written[job.id]
            for old in dropped(self._jobs.values()):
                del self._jobs[old]
                self._feed.mark(JOBS, old)

    async def _audit(self, action: str, before: Job, after: Job, actor: str) -> None:
        entry = AuditEntry(
            at=after.changed,
            actor=actor,
            action=action,
            subject=after.subject,
            before=_shown(before),
            after=_shown(after),
        )
        await self._store.put_audit(entry)

    def _check_free(self, subject: str) -> None:
        active = self.active()
        for job in active:
            if job.subject == subject:
                raise Conflict(
                    f"{job.id} serves {subject} already, for {job.actor}",
                    hint=f"follow it: llmgw ctl jobs follow {job.id}",
                )
        if len(active) >= ACTIVE_MOST:
            raise Refused(
                f"{len(active)} jobs go on, which are as many as may",
                hint="wait for some, or cancel them: llmgw ctl jobs",
            )

    def _new_id(self) -> str:
        while (made := f"job-{crockford(self._rng, 6)}") in self._jobs:
            pass
        return made

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()


def _in_steps(job: Job) -> Job:
    """Return a job without what changes while a step goes on."""
    steps = tuple(map(_without_progress, job.steps))
    return msgspec.structs.replace(job, changed=0.0, steps=steps)


def _without_progress(step: JobStep) -> JobStep:
    parts = tuple(
        msgspec.structs.replace(part, progress=None) if part.state != DONE else part
        for part in step.parts
    )
    return msgspec.structs.replace(step, progress=None, parts=parts)


def _shown(job: Job) -> str:
    return msgspec.json.encode({"id": job.id, "state": job.state, "reason": job.reason}).decode()
