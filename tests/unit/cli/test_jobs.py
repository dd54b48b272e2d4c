"""`llmgw ctl model serve` and `llmgw ctl jobs`: what is asked, what is printed, how it ends."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

from llmgw.base.errors import EXIT_FAILED, LlmgwError, NotFound, Usage
from llmgw.cli import session
from llmgw.cli.jobfollow import CLEAR_LINE, PROGRESS_EACH, Lines, step_line
from llmgw.cli.main import app
from llmgw.client.interface import LIVE, Change, Connection, WatchBatch
from llmgw.model.jobs import (
    CANCELLED,
    DONE,
    FAILED,
    RUNNING,
    SKIPPED,
    WAITING,
    Job,
    JobPart,
    JobProgress,
    JobStep,
    ServeJob,
)
from tests.fakes.catalog_api import MODEL, CatalogApi

PLANNED = JobStep(name="plan", state=DONE, progress=JobProgress(words="starts 1 replica: n1 [CPU]"))
CHECKED = JobStep(name="check source", state=DONE)
LIVE_NOW = Connection(state=LIVE, since=0.0, heard=0.0)


def fetching(done: int | None, reason: str | None = None) -> JobStep:
    progress = JobProgress(words="n1: downloading tiny.gguf", done=done, total=100_000_000)
    of_node = msgspec.structs.replace(progress, words="downloading tiny.gguf")
    part = JobPart(name="n1", state=RUNNING, progress=of_node)
    return JobStep(name="fetch", state=RUNNING, progress=progress, reason=reason, parts=(part,))


def a_job(*steps: JobStep, state: str = RUNNING, reason: str | None = None) -> Job:
    spec = ServeJob(model=MODEL, version=7)
    return Job(
        id="job-1",
        subject="org/qwen",
        actor="ada",
        created=0.0,
        changed=0.0,
        state=state,
        reason=reason,
        steps=steps or (PLANNED, CHECKED, fetching(5_000_000)),
        spec=spec,
    )


class JobsApi(CatalogApi):
    """A control plane with a catalog and jobs; it notes what is posted, and tells what it is told.

    Attributes:
        coming: what a watch tells, one after the other; a KeyboardInterrupt is raised.
    """

    def __init__(self) -> None:
        super().__init__()
        self.posted: list[tuple[str, Any]] = []
        self.jobs: tuple[Job, ...] = (a_job(),)
        self.answer = a_job()
        self.coming: list[Job | type[BaseException] | None] = []

    def get(self, path: str, query: object = None) -> object:
        if path == "/jobs":
            return msgspec.to_builtins(self.jobs)
        if path.startswith("/jobs/"):
            for job in self.jobs:
                if job.id == path.removeprefix("/jobs/"):
                    return msgspec.to_builtins(job)
            raise NotFound(f"no job at {path}")
        return super().get(path, query)

    def post(self, path: str, body: object = None) -> object:
        if path == "/plan/model":
            return super().post(path, body)
        self.posted.append((path, body))
        return msgspec.to_builtins(self.answer)

    async def __aenter__(self) -> "JobsApi":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def watch(self, topics: object) -> AsyncIterator[WatchBatch]:
        assert topics == ("jobs",)
        for one in self.coming:
            if isinstance(one, type):
                raise one
            record = None if one is None else msgspec.to_builtins(one)
            other = Change("jobs", "job-2", {})
            yield WatchBatch(LIVE_NOW, (other, Change("jobs", "job-1", record)))


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> JobsApi:
    there = JobsApi()
    monkeypatch.setattr(session, "connect", lambda: there)
    monkeypatch.setattr(session, "connect_for_long", lambda: there)
    return there


def ctl(*argv: str, stdin: str | None = None) -> Any:
    return CliRunner().invoke(app, ["ctl", *argv], input=stdin)


# -- serve -----------------------------------------------------------------------------------


def test_a_model_of_the_catalog_is_served_under_the_version_that_was_read(api: JobsApi) -> None:
    done = ctl("model", "serve", "org/qwen", "--no-follow")
    assert done.exit_code == 0, done.output
    model = msgspec.to_builtins(MODEL)
    assert api.posted == [("/jobs", {"kind": "serve", "model": model, "version": 7})]
    assert done.stdout == "job-1\n"
    assert "llmgw ctl jobs follow job-1" in done.stderr


def test_a_file_and_standard_input_are_served(api: JobsApi, tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("name: tiny\nprofiles:\n  - engine: simulated\n")
    assert ctl("model", "serve", str(file), "--no-follow", "-o", "name").stdout == "job-1\n"
    ctl("model", "serve", "-", "--no-follow", stdin=file.read_text())
    for _, body in api.posted:
        assert body["model"]["name"] == "tiny"
        assert "version" not in body
    shown = ctl("model", "serve", str(file), "--no-follow", "-o", "json")
    assert json.loads(shown.stdout)["id"] == "job-1"
    shown = ctl("model", "serve", str(file), "--no-follow", "-o", "yaml")
    assert yaml.safe_load(shown.stdout)["id"] == "job-1"


def test_a_dry_run_only_plans(api: JobsApi, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[object] = []
    monkeypatch.setattr("llmgw.cli.ctl.model_plan.plan", lambda *one: planned.append(one))
    assert ctl("model", "serve", "org/qwen", "--dry-run").exit_code == 0
    assert [one[0] for one in planned] == ["org/qwen"]  # type: ignore[index]
    assert api.posted == []


def test_it_is_followed_to_its_end_a_line_a_step(api: JobsApi) -> None:
    api.coming = [
        a_job(PLANNED, CHECKED, JobStep(name="fetch", state=DONE)),
        a_job(
            PLANNED,
            CHECKED,
            JobStep(name="fetch", state=DONE),
            JobStep(name="ready", state=DONE, progress=JobProgress(words="1 of 1 replica")),
            state=DONE,
        ),
    ]
    done = ctl("model", "serve", "org/qwen")
    assert done.exit_code == 0, done.output
    assert done.stderr == "job-1 serves org/qwen\n", "nobody interrupted it"
    assert done.stdout.splitlines() == [
        "plan: done: starts 1 replica: n1 [CPU]",
        "check source: done",
        "fetch: n1: downloading tiny.gguf (5.0 MB of 100 MB)",
        "fetch: done",
        "ready: done: 1 of 1 replica",
        "org/qwen is served",
    ]


def test_a_failed_job_ends_with_its_reason_and_what_to_do(api: JobsApi) -> None:
    words = "n1: 1 GB free below /w, needs 2 GB"
    api.coming = [
        a_job(JobStep(name="fetch", state=FAILED, reason=words), state=FAILED, reason=words)
    ]
    done = ctl("jobs", "follow", "job-1")
    assert isinstance(done.exception, LlmgwError)
    assert done.exception.exit_code == EXIT_FAILED
    assert done.exception.message == "job-1 failed at fetch"
    assert done.stdout.splitlines()[-1] == f"fetch: failed: {words}"
    assert "llmgw ctl jobs retry job-1" in (done.exception.hint or "")


def test_a_job_that_can_not_be_tried_again_says_what_else_can_be_done(api: JobsApi) -> None:
    ended = a_job(JobStep(name="catalog", state=FAILED, reason="bo was first"), state=FAILED)
    api.coming = [msgspec.structs.replace(ended, hint="serve what is there: llmgw ctl model serve")]
    done = ctl("jobs", "follow", "job-1")
    assert isinstance(done.exception, LlmgwError)
    assert done.exception.hint == "serve what is there: llmgw ctl model serve"
    api.jobs = (api.coming[0],)  # type: ignore[assignment]
    assert "to do    serve what is there" in ctl("jobs", "show", "job-1").stdout


def test_a_model_of_which_none_is_wanted_is_not_said_to_be_served(api: JobsApi) -> None:
    progress = JobProgress(words="no replica is wanted", done=0, total=0)
    last = JobStep(name="ready", state=DONE, progress=progress)
    api.coming = [a_job(last, state=DONE)]
    done = ctl("jobs", "follow", "job-1")
    assert done.exit_code == 0
    words = "org/qwen is in the catalog, and no replica of it is wanted"
    assert done.stdout.splitlines()[-1] == words


def test_what_serving_ends_is_said_before_and_asked_about(api: JobsApi) -> None:
    api.ends = {"qwen-1": "there is no room for both"}
    asked = ctl("model", "serve", "org/qwen", "--no-follow")
    assert isinstance(asked.exception, Usage)
    words = "org/qwen: 1 replica will end (3 replies in flight): qwen-1 on n1: there is no room"
    assert words in asked.stderr
    assert api.posted == []
    assert ctl("model", "serve", "org/qwen", "--no-follow", "--yes").stdout == "job-1\n"


def test_a_time_that_it_may_take_is_sent_along_and_shown(api: JobsApi) -> None:
    assert ctl("model", "serve", "org/qwen", "--no-follow", "--within", "30m").exit_code == 0
    ((_, body),) = api.posted
    assert body["within"] == 1800.0
    assert isinstance(ctl("model", "serve", "org/qwen", "--within", "soon").exception, Usage)
    api.jobs = (msgspec.structs.replace(a_job(), until=session.now() + 600.5),)
    assert "until    fails in 10m00s unless it is done" in ctl("jobs", "show", "job-1").stdout


def test_a_cancelled_job_ends_with_who_did_it(api: JobsApi) -> None:
    api.coming = [a_job(state=CANCELLED, reason="cancelled by bo")]
    done = ctl("jobs", "follow", "job-1")
    assert isinstance(done.exception, LlmgwError)
    assert done.exception.message == "job-1 was cancelled by bo"
    assert done.exception.exit_code == EXIT_FAILED


def test_interrupted_the_job_goes_on_and_it_is_said_how_to_look_again(api: JobsApi) -> None:
    api.coming = [KeyboardInterrupt]
    done = ctl("model", "serve", "org/qwen")
    assert done.exit_code == 130
    assert "job-1 goes on; follow it again: llmgw ctl jobs follow job-1" in done.stderr


def test_a_job_that_is_over_is_not_waited_for(api: JobsApi) -> None:
    api.jobs = (a_job(PLANNED, state=DONE),)
    done = ctl("jobs", "follow", "job-1")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == "org/qwen is served"


def test_a_job_that_is_kept_no_longer_is_said_to_be_gone(api: JobsApi) -> None:
    api.coming = [None]
    assert isinstance(ctl("jobs", "follow", "job-1").exception, NotFound)


def test_each_change_is_a_line_of_json_when_that_is_asked_for(api: JobsApi) -> None:
    api.coming = [a_job(PLANNED, state=DONE)]
    done = ctl("model", "serve", "org/qwen", "-o", "json")
    assert [json.loads(line)["state"] for line in done.stdout.splitlines()] == [RUNNING, DONE]
    assert isinstance(ctl("jobs", "follow", "job-1", "-o", "yaml").exception, Usage)


# -- lines -----------------------------------------------------------------------------------


def test_a_pipe_is_not_flooded_with_progress() -> None:
    now = [0.0]
    lines = Lines(tty=False, now=lambda: now[0])
    written = ""
    for second in range(100):
        now[0] = float(second)
        written += lines.tell(a_job(fetching(second * 1_000_000)))
    assert len(written.splitlines()) == 100 // PROGRESS_EACH
    assert CLEAR_LINE not in written


def test_a_reason_is_told_at_once_and_once_however_the_progress_goes() -> None:
    lines = Lines(tty=False, now=lambda: 0.0)
    told = [lines.tell(a_job(fetching(done, "n1 is stuck"))) for done in (1_000_000, 2_000_000)]
    assert told == ["fetch: n1 is stuck; n1: downloading tiny.gguf (1.0 MB of 100 MB)\n", ""]
    assert lines.tell(a_job(fetching(3_000_000, "n1 is away"))).startswith("fetch: n1 is away")


def test_on_a_terminal_the_last_line_is_written_over_until_the_step_is_over() -> None:
    lines = Lines(tty=True, now=lambda: 0.0)
    first = lines.tell(a_job(fetching(1_000_000)))
    assert first == f"{CLEAR_LINE}fetch: n1: downloading tiny.gguf (1.0 MB of 100 MB)"
    assert lines.tell(a_job(fetching(1_000_000))) == ""
    assert lines.tell(a_job(fetching(2_000_000))).startswith(CLEAR_LINE)
    over = lines.tell(a_job(JobStep(name="fetch", state=SKIPPED, reason="held by n1 already")))
    assert over == f"{CLEAR_LINE}fetch: skipped: held by n1 already\n"


def test_what_a_node_says_cannot_steer_the_terminal() -> None:
    step = JobStep(name="fetch", state=FAILED, reason="bad\x1b[2Jname\nfetch: done")
    (line,) = Lines(tty=True, now=lambda: 0.0).tell(a_job(step)).splitlines()
    assert "\x1b" not in line


def test_replicas_are_not_told_as_bytes() -> None:
    progress = JobProgress(words="1 of 2 replicas", done=1, total=2)
    step = JobStep(name="ready", state=RUNNING, progress=progress, reason="m-1 is starting")
    assert step_line(step) == "ready: m-1 is starting; 1 of 2 replicas"
    assert step_line(JobStep(name="place", state=RUNNING)) == "place: begun"


# -- jobs ------------------------------------------------------------------------------------


def test_jobs_are_listed_with_where_they_are_and_why(api: JobsApi) -> None:
    failed = a_job(JobStep(name="plan", state=FAILED), state=FAILED, reason="n1: 8 GB, needs 24")
    api.jobs = (a_job(), msgspec.structs.replace(failed, id="job-0"))
    for argv in (("jobs",), ("jobs", "list"), ("jobs", "list", "-o", "wide")):
        head, first, second = ctl(*argv).stdout.splitlines()
        assert head.split()[:5] == ["JOB", "KIND", "SUBJECT", "STATE", "STEP"]
        assert first.split()[:5] == ["job-1", "serve", "org/qwen", "running", "fetch"]
        assert "downloading tiny.gguf (5.0 MB of 100 MB)" in first
        assert second.endswith("n1: 8 GB, needs 24") or "wide" in argv
    assert ctl("jobs", "-o", "name").stdout.split() == ["job-1", "job-0"]
    assert json.loads(ctl("jobs", "-o", "json").stdout)[0]["id"] == "job-1"
    assert yaml.safe_load(ctl("jobs", "list", "-o", "yaml").stdout)[1]["id"] == "job-0"
    api.jobs = ()
    assert "no jobs" in ctl("jobs").stderr


def test_a_job_is_shown_with_its_steps_and_nodes(api: JobsApi) -> None:
    for argv in (("jobs", "show", "job-1"), ("jobs", "job-1")):
        text = ctl(*argv).stdout
        assert "serves   org/qwen" in text
        assert "check source  done" in text
        assert "  n1: downloading tiny.gguf (5.0 MB of 100 MB)" in text
    assert json.loads(ctl("jobs", "show", "job-1", "-o", "json").stdout)["actor"] == "ada"
    assert isinstance(ctl("jobs", "show", "job-9").exception, NotFound)


def test_a_job_is_cancelled_and_tried_again(api: JobsApi) -> None:
    api.answer = a_job(state=CANCELLED, reason="cancelled by ada; org/qwen stays in the catalog")
    done = ctl("jobs", "cancel", "job-1")
    assert done.stdout == "job-1 is cancelled\n"
    assert "stays in the catalog" in done.stderr
    api.answer = a_job(PLANNED, JobStep(name="check source", state=WAITING))
    assert ctl("jobs", "retry", "job-1").stdout == "job-1 goes on from check source\n"
    assert [path for path, _ in api.posted] == ["/jobs/job-1/cancel", "/jobs/job-1/retry"]
