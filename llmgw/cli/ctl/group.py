"""`llmgw ctl`: the table of its commands."""

import os
from typing import Annotated

import typer

from llmgw.cli.lazy import Entry, lazy_app

CTL = "llmgw.cli.ctl"
SEE = "See"
SERVE = "Serve models"
MACHINES = "Machines"
CLUSTER = "The cluster"

ENTRIES = {
    "status": Entry(f"{CTL}.status:status", "Is it serving, and what is wrong.", SEE),
    "nodes": Entry(f"{CTL}.nodes:nodes", "List nodes: state, devices, memory, engines.", SEE),
    "replicas": Entry(f"{CTL}.replicas:replicas", "List replicas: state, node, back end.", SEE),
    "models": Entry(f"{CTL}.models:models", "List models: wanted, ready, why not.", SEE),
    "gateways": Entry(f"{CTL}.gateways:gateways", "List gateways.", SEE),
    "traffic": Entry(f"{CTL}.traffic:traffic", "How requests go: rates, times, errors.", SEE),
    "requests": Entry(f"{CTL}.requests:app", "List requests in flight, or end some.", SEE),
    "logs": Entry(f"{CTL}.logs:logs", "Read or follow the log of a node or an engine.", SEE),
    "events": Entry(f"{CTL}.events:events", "List what happened.", SEE),
    "hardware": Entry(f"{CTL}.hardware:hardware", "List port changes and driver errors.", SEE),
    "plan": Entry(f"{CTL}.plan:plan", "What the last pass decided, and why.", SEE),
    "explain": Entry(f"{CTL}.plan:explain", "Every node's verdict on a model.", SEE),
    "usage": Entry(f"{CTL}.usage:usage", "What was used, by key and model.", SEE),
    "model": Entry(f"{CTL}.model:app", "Add, remove or show a model.", SERVE),
    "jobs": Entry(f"{CTL}.jobs:app", "List, follow, cancel or retry jobs.", SERVE),
    "keys": Entry(f"{CTL}.keys:keys", "List users' keys.", SERVE),
    "key": Entry(f"{CTL}.key:app", "Make or remove a user's key.", SERVE),
    "node": Entry(f"{CTL}.node:app", "Show, join, cordon or remove a node.", MACHINES),
    "gateway": Entry(f"{CTL}.gateway:app", "Let a gateway join, show or restart it.", MACHINES),
    "config": Entry(f"{CTL}.config:app", "Read and change the cluster's settings.", CLUSTER),
    "token": Entry(f"{CTL}.token:app", "Operators' tokens for the admin API.", CLUSTER),
    "audit": Entry(f"{CTL}.audit:audit", "Who changed what.", CLUSTER),
}

HELP = """See and change the cluster through its admin API.

The cluster is the current context's (`llmgw context`), or LLMGW_CONTEXT, LLMGW_SERVER with
LLMGW_TOKEN or LLMGW_TOKEN_FILE.
"""

app = lazy_app(ENTRIES, HELP)


@app.callback()
def choose(
    context: Annotated[
        str | None, typer.Option("--context", help="Which cluster, by its context's name.")
    ] = None,
    no_color: Annotated[bool, typer.Option("--no-color", help="Plain tables.")] = False,
) -> None:
    """Take the options that hold for every command."""
    if context is not None:
        os.environ["LLMGW_CONTEXT"] = context
    if no_color:
        os.environ["NO_COLOR"] = "1"
