"""`llmgw ctl jobs`: what goes on, what ended, and how; one is followed, cancelled, tried again."""

from shlex import quote
from typing import Annotated, Any

import typer

from llmgw.base.units import show_seconds
from llmgw.cli import session, show
from llmgw.cli.jobfollow import follow, progress_words
from llmgw.cli.lazy import Entry, lazy_app
from llmgw.cli.options import Format, Output, Watch
from llmgw.cli.output import ABSENT, Column, fields, note, print_data, print_rows, say, table
from llmgw.model.jobs import DONE, SKIPPED, Job, JobPart, JobProgress, JobStep

HERE = "llmgw.cli.ctl.jobs"

ENTRIES = {
    "list": Entry(f"{HERE}:list_jobs", "List jobs, newest first: state, step, why."),
    "show": Entry(f"{HERE}:show_one", "Show a job's steps and how far each is."),
    "follow": Entry(f"{HERE}:follow_one", "Follow a job until it is over."),
    "cancel": Entry(f"{HERE}:cancel", "End a job where it is."),
    "retry": Entry(f"{HERE}:retry", "Let a job go on from the step that failed."),
}

app = lazy_app(ENTRIES, "List, follow, cancel or retry jobs.", fallback="show")

Id = Annotated[str, typer.Argument(metavar="ID", help="The job's id.")]


@app.callback(invoke_without_command=True, no_args_is_help=False)
def jobs(ctx: typer.Context, output: Output = Format.TABLE, watch: Watch = False) -> None:
    """List jobs when no command is named."""
    if ctx.invoked_subcommand is None:
        list_jobs(output, watch)


def _step(job: Job) -> JobStep | None:
    """Return the step that a job is at; None when all are done."""
    return next((one for one in job.steps if one.state not in (DONE, SKIPPED)), None)


def _why(job: Job) -> str:
    step = _step(job)
    if job.reason is not None or step is None:
        return show.text(job.reason)
    return show.text(step.reason or progress_words(step))


def _at(job: Job) -> str:
    step = _step(job)
    return ABSENT if step is None else step.name


COLUMNS: tuple[Column[Job], ...] = (
    Column("JOB", lambda j: j.id),
    Column("KIND", lambda j: j.kind),
    Column("SUBJECT", lambda j: j.subject),
    Column("STATE", lambda j: j.state),
    Column("STEP", _at),
    Column("BEGUN", lambda j: show.age(j.created, session.now()), right=True),
    Column("BY", lambda j: j.actor),
    Column("WHY", _why),
    Column("CHANGED", lambda j: show.age(j.changed, session.now()), wide=True, right=True),
)


def list_jobs(output: Output = Format.TABLE, watch: Watch = False) -> None:
    """List jobs that go on and the newest of those that are over, newest first."""
    if watch:
        from llmgw.cli.watching import follow as follow_topics

        wide = output is Format.WIDE
        follow_topics(
            ("jobs",), lambda state: table(rows(state["jobs"]), COLUMNS, wide=wide), output
        )
        return
    found = session.connect().get("/jobs")
    print_rows(
        session.typed(found, tuple[Job, ...], "jobs"),
        COLUMNS,
        output,
        name=lambda job: job.id,
        data=found,
        empty="no jobs; `llmgw ctl model serve` begins one",
    )


def rows(records: dict[str, Any]) -> list[Job]:
    """Return the jobs of a topic's records, newest first."""
    found = [session.typed(record, Job, "jobs") for record in records.values()]
    return sorted(found, key=lambda job: (job.created, job.id), reverse=True)


_STEPS: tuple[Column[JobStep], ...] = (
    Column("STEP", lambda s: s.name),
    Column("STATE", lambda s: s.state),
    Column("HOW FAR", lambda s: show.text(progress_words(s))),
    Column("WHY", lambda s: show.text(s.reason)),
)


def _part_words(part: JobPart) -> str:
    if part.reason is not None:
        return part.reason
    progress = part.progress or JobProgress()
    return show.progress(progress.words or part.state, progress.done, progress.total)


def show_one(job: Id, output: Output = Format.TABLE) -> None:
    """Show a job: its steps, how far each is, and each node's share of it."""
    found = session.connect().get(f"/jobs/{job}")
    if output in (Format.JSON, Format.YAML):
        print_data(found, output)
        return
    one = session.typed(found, Job, "job")
    if output is Format.NAME:
        say(one.id)
        return
    for line in page(one, session.now()):
        say(line)


def page(job: Job, now: float) -> list[str]:
    """Return what a person reads of one job."""
    lines = fields(
        (
            ("job", job.id),
            ("serves" if job.kind == "serve" else job.kind, job.subject),
            ("state", job.state),
            ("why", job.reason or ""),
            ("to do", job.hint or ""),
            ("by", job.actor),
            ("begun", f"{show.age(job.created, now)} ago"),
            ("changed", f"{show.age(job.changed, now)} ago"),
            ("until", _until(job, now)),
        )
    )
    lines += ["", *table(job.steps, _STEPS, wide=True)]
    step = _step(job)
    if step is not None and step.parts:
        lines += ["", *(f"  {part.name}: {_part_words(part)}" for part in step.parts)]
    return lines


def _until(job: Job, now: float) -> str:
    """Return how long a job may still take; empty when it has no limit or is over."""
    if job.until is None or job.over:
        return ""
    return f"fails in {show_seconds(max(0.0, job.until - now))} unless it is done"


def follow_one(job: Id, output: Output = Format.TABLE) -> None:
    """Follow a job until it is over: a line a step. Interrupted, the job goes on."""
    follow(session.get(f"/jobs/{job}", Job), output)


def cancel(job: Id) -> None:
    """End a job where it is; what is in the catalog already stays there."""
    answer = session.connect().post(f"/jobs/{job}/cancel")
    one = session.typed(answer, Job, "job")
    say(f"{one.id} is {one.state}")
    note(one.reason or "")


def retry(job: Id) -> None:
    """Let a job that failed or was cancelled go on from the step it was at."""
    answer = session.connect().post(f"/jobs/{job}/retry")
    one = session.typed(answer, Job, "job")
    step = _step(one)
    say(f"{one.id} goes on" + (f" from {step.name}" if step is not None else ""))
    note(f"follow it: llmgw ctl jobs follow {quote(one.id)}")
