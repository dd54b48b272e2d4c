"""`llmgw stop` and `llmgw start`: whether the cluster serves anything at all (REC-9)."""

from typing import Any

from llmgw.cli import session
from llmgw.cli.ctl import ends
from llmgw.cli.options import DryRun, Yes
from llmgw.cli.output import agreed, note, say

PATH = "serving.stopped"


def stop(yes: Yes = False, dry_run: DryRun = False) -> None:
    """Stop every model and free all devices; nothing else changes, and `llmgw start` undoes it."""
    client = session.connect()
    status: dict[str, Any] = client.get("/status")
    cluster = str(status["cluster"])
    if status["stopped"]:
        say(f"{cluster} is stopped already")
        return
    ending = ends.runs()
    words = f"{cluster}: users get 503 system_stopped at once; {ends.ending_words(ending)}"
    if not agreed(words, cluster, yes=yes, dry_run=dry_run):
        return
    client.put("/settings", {"path": PATH, "value": True})
    say(f"{cluster} is stopped: replicas end as the replies that they have begun do")
    note("see how far it is: llmgw status; serve again: llmgw start")


def start(dry_run: DryRun = False) -> None:
    """Serve again what the catalog wants."""
    client = session.connect()
    status: dict[str, Any] = client.get("/status")
    cluster = str(status["cluster"])
    if not status["stopped"]:
        say(f"{cluster} is not stopped")
        return
    if dry_run:
        plan: dict[str, Any] = client.get("/plan", {"next": "true", "stopped": "false"})
        note(f"{cluster}: {plan['sentence']}; nothing was changed")
        return
    client.put("/settings", {"path": PATH, "value": False})
    say(f"{cluster} serves again: its models are started")
    note("see how far it is: llmgw status")
