"""Jobs: work with steps, which goes on when whoever asked for it has gone."""

from llmgw.control.api.operation import PREFIX, Call, Operation
from llmgw.control.api.shapes import NewServeJob
from llmgw.model.catalog_check import check_model
from llmgw.model.jobs import Job
from llmgw.model.keys import OPERATE, READ
from llmgw.model.record import Problem


async def jobs(call: Call) -> tuple[Job, ...]:
    """Return all jobs that go on and the newest of those that are over, newest first."""
    return call.plane.jobs.all()


async def job(call: Call) -> Job:
    """Return one job."""
    return call.plane.jobs.get(call.path["id"])


async def make_job(call: Call, body: NewServeJob) -> Job:
    """Begin a job."""
    return await call.plane.jobs.serve(
        body.model, body.version, actor=call.caller.name, within=body.within
    )


def problems_of(body: NewServeJob) -> tuple[Problem, ...]:
    """Return every problem of the model that is to be served, each with its path in the body."""
    return tuple(
        Problem(path=f"model.{one.path}", words=one.words) for one in check_model(body.model)
    )


async def cancel_job(call: Call) -> Job:
    """End a job where it is."""
    return await call.plane.jobs.cancel(call.path["id"], actor=call.caller.name)


async def retry_job(call: Call) -> Job:
    """Let a job go on from the step that failed."""
    return await call.plane.jobs.retry(call.path["id"], actor=call.caller.name)


OPERATIONS = (
    Operation("GET", f"{PREFIX}/jobs", READ, jobs, "All jobs, newest first."),
    Operation("GET", f"{PREFIX}/jobs/{{id}}", READ, job, "One job: its steps and how far it is."),
    Operation(
        "POST",
        f"{PREFIX}/jobs",
        OPERATE,
        make_job,
        "Begin a job: serve a model, from its plan to ready replicas.",
        status=201,
        meaning=problems_of,
    ),
    Operation(
        "POST",
        f"{PREFIX}/jobs/{{id}}/cancel",
        OPERATE,
        cancel_job,
        "End a job where it is; what is in the catalog already stays there.",
    ),
    Operation(
        "POST",
        f"{PREFIX}/jobs/{{id}}/retry",
        OPERATE,
        retry_job,
        "Let a job that failed or was cancelled go on from the step it was at.",
    ),
)
