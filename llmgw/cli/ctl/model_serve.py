"""`llmgw ctl model serve`: serve a model, from its plan to ready replicas, as a job."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import msgspec
import typer

from llmgw.cli import session
from llmgw.cli.ctl import ends, model_plan
from llmgw.cli.jobfollow import follow
from llmgw.cli.modelfile import read_file
from llmgw.cli.options import DryRun, Format, Output, Yes, duration
from llmgw.cli.output import confirm, note, print_data, say
from llmgw.model.catalog import CatalogEntry
from llmgw.model.jobs import Job

Follow = Annotated[
    bool, typer.Option("--follow/--no-follow", help="Follow it until it serves or failed.")
]


Within = Annotated[
    str, typer.Option(help="How long it may take: 30m. Then the job fails, the model stays.")
]


def serve(
    what: model_plan.What,
    yes: Yes = False,
    dry_run: DryRun = False,
    following: Follow = True,
    within: Within = "",
    output: Output = Format.TABLE,
) -> None:
    """Serve a model: plan it, fetch its weights, put it into the catalog, wait until it is ready.

    What ends for it is said first, and asked about. The job goes on when this command is
    interrupted. Exit code 0: it serves; 1: it failed.
    """
    if dry_run:
        model_plan.plan(what, output)
        return
    body: dict[str, object] = {"kind": "serve"}
    if within:
        body["within"] = duration("--within", within)
    if what != "-" and not Path(what).is_file():
        entry = session.get(f"/models/{what}", CatalogEntry)
        model = entry.model
        body["version"] = entry.version
    else:
        model = read_file(what)
    if ending := ends.foreseen(model)[1]:
        confirm("\n".join(ending), model.name, yes=yes)
    body["model"] = msgspec.to_builtins(model)
    job = session.typed(session.connect().post("/jobs", body), Job, "job")
    if following:
        note(f"{job.id} serves {job.subject}")
        follow(job, output)
    elif output in (Format.JSON, Format.YAML):
        print_data(job, output)
    else:
        say(job.id)
        if output is not Format.NAME:
            note(f"follow it: llmgw ctl jobs follow {quote(job.id)}")
