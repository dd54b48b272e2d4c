"""Following one job: a line a step as it changes, and how far it is without a flood of lines.

On a terminal the last line is written over while a step goes on; a pipe gets such a line at most
each ten seconds. With `-o json` each change is the job in one line.
"""

import asyncio
import sys
from collections.abc import Callable
from shlex import quote

from llmgw.base.errors import LlmgwError, NotFound, Usage
from llmgw.cli import session, show
from llmgw.cli.options import Format
from llmgw.cli.output import cut_to_line, json_line, note, printable, say
from llmgw.cli.watching import tell_connection
from llmgw.client.interface import Connection
from llmgw.model.jobs import (
    CANCELLED,
    DONE,
    FAILED,
    RUNNING,
    SKIPPED,
    WAITING,
    Job,
    JobStep,
)

PROGRESS_EACH = 10.0
"""Seconds between two lines of progress where lines stay."""
_OVER = frozenset({DONE, SKIPPED, FAILED, CANCELLED})
_IN_BYTES = frozenset({"check source", "fetch"})
CLEAR_LINE = "\r\x1b[K"


def follow(job: Job, output: Format) -> None:
    """Print how a job goes on until it is over; whoever interrupts this is told that it goes on.

    Raises:
        Usage: the form can't be followed.
        LlmgwError: the job failed or was cancelled.
    """
    if output in (Format.YAML, Format.NAME):
        raise Usage(
            f"a job is not followed as {output.value}",
            hint="-o json prints a line for each change; --no-follow prints it once",
        )
    told = _as_json if output is Format.JSON else Lines(tty=sys.stdout.isatty()).tell
    try:
        ended = asyncio.run(_followed(job, told))
    except KeyboardInterrupt:
        note(f"\n{job.id} goes on; follow it again: llmgw ctl jobs follow {quote(job.id)}")
        sys.exit(130)
    _end(ended, output)


def _end(job: Job, output: Format) -> None:
    if job.state == FAILED:
        # Why is in the step's line already, or in the job.
        at = next((step.name for step in job.steps if step.state == FAILED), "its end")
        raise LlmgwError(
            f"{job.id} failed at {at}",
            hint=job.hint or f"try it again from there: llmgw ctl jobs retry {quote(job.id)}",
        )
    if job.state == CANCELLED:
        raise LlmgwError(f"{job.id} was {job.reason or 'cancelled'}")
    if output is not Format.JSON:
        say(f"{job.subject} {_served(job)}")


def _served(job: Job) -> str:
    """Return what came of a job that is done: a model of which none is wanted is not served."""
    last = job.steps[-1].progress if job.steps else None
    if last is None or last.total != 0:
        return "is served"
    return "is in the catalog, and no replica of it is wanted"


async def _followed(job: Job, told: Callable[[Job], str]) -> Job:
    """Return the job once it is over."""
    connection: Connection | None = None
    _write(told(job))
    if job.over:
        return job
    async with session.connect_for_long() as client:
        async for batch in client.watch(("jobs",)):
            tell_connection(batch.connection, connection)
            connection = batch.connection
            for change in batch.changes:
                if change.id != job.id:
                    continue
                if change.record is None:
                    raise NotFound(f"{job.id} ended so long ago that it is not kept any more")
                job = session.typed(change.record, Job, "jobs")
                _write(told(job))
                if job.over:
                    return job
    raise NotFound(f"{job.id} is not told of any more")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _as_json(job: Job) -> str:
    return f"{json_line(job)}\n"


class Lines:
    """What a person reads of a job that goes on.

    Args:
        tty: lines can be written over.
        now: seconds; paces progress.
    """

    def __init__(self, *, tty: bool, now: Callable[[], float] = session.now) -> None:
        self._tty = tty
        self._now = now
        self._said: dict[str, tuple[str, str | None]] = {}
        """State and reason of each step, as they were last told."""
        self._progress = ""
        """How far it was, as it was last told."""
        self._open = False
        """The last line is one that is written over."""
        self._progress_at = float("-inf")

    def tell(self, job: Job) -> str:
        """Return what to write after a change."""
        return "".join(self._step(step) for step in job.steps if step.state != WAITING)

    def _step(self, step: JobStep) -> str:
        now, before = (step.state, step.reason), self._said.get(step.name)
        self._said[step.name] = now
        line = printable(step_line(step))
        if step.state not in _OVER and (step.reason is None or now == before):
            return self._how_far(line)
        if now == before:
            return ""
        if step.state not in _OVER:
            self._progress, self._progress_at = line, self._now()
        return f"{self._closed()}{line}\n"

    def _how_far(self, line: str) -> str:
        if line == self._progress:
            return ""
        if not self._tty and self._now() - self._progress_at < PROGRESS_EACH:
            return ""
        self._progress, self._progress_at = line, self._now()
        self._open = self._tty
        return f"{CLEAR_LINE}{cut_to_line(line)}" if self._tty else f"{line}\n"

    def _closed(self) -> str:
        """Return what clears the line that is written over."""
        closing, self._open = CLEAR_LINE if self._open else "", False
        return closing


def step_line(step: JobStep) -> str:
    """Return a step as a line: its name, how it is, and why or how far."""
    words = progress_words(step)
    if step.state == RUNNING:
        told = [step.reason, words]
        return f"{step.name}: {'; '.join(one for one in told if one) or 'begun'}"
    told = [step.state, step.reason, words if step.state == DONE else None]
    return f"{step.name}: {': '.join(one for one in told if one)}"


def progress_words(step: JobStep) -> str:
    """Return how far a step is, in its own unit; empty when it does not say."""
    progress = step.progress
    if progress is None:
        return ""
    words = progress.words or ""
    if step.name not in _IN_BYTES or not words:
        return words
    return show.progress(words, progress.done, progress.total)
