"""`llmgw ctl model serve`: serve a model, from its plan to ready replicas, as a job."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import msgspec
import typer

from llmgw.cli import session
from llmgw.cli.ctl import model_plan
from llmgw.cli.jobfollow import follow
from llmgw.cli.options import DryRun, Format, Output
from llmgw.cli.output import note, print_data, say
from llmgw.model.catalog import CatalogEntry
from llmgw.model.jobs import Job

Follow = Annotated[
    bool, typer.Option("--follow/--no-follow", help="Follow it until it serves or failed.")
]


def serve(
    what: model_plan.What,
    dry_run: DryRun = False,
    following: Follow = True,
    output: Output = Format.TABLE,
) -> None:
    """Serve a model: plan it, fetch its weights, put it into the catalog, wait until it is ready.

    The job goes on when this command is interrupted. Exit code 0: it serves; 1: it failed.
    """
    if dry_run:
        model_plan.plan(what, output)
        return
    body: dict[str, object] = {"kind": "serve"}
    if what != "-" and not Path(what).is_file():
        entry = session.get(f"/models/{what}", CatalogEntry)
        body |= {"model": msgspec.to_builtins(entry.model), "version": entry.version}
    else:
        from llmgw.cli.ctl.model import read_file

        body |= {"model": msgspec.to_builtins(read_file(what))}
    job = session.typed(session.connect().post("/jobs", body), Job, "job")
    if following:
        note(f"{job.id} serves {job.subject}; interrupted, it goes on")
        follow(job, output)
    elif output in (Format.JSON, Format.YAML):
        print_data(job, output)
    else:
        say(job.id)
        if output is not Format.NAME:
            note(f"follow it: llmgw ctl jobs follow {quote(job.id)}")
