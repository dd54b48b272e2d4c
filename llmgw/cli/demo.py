"""`llmgw demo`: hands over to the demo, which is loaded only then."""

import importlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from llmgw.base.errors import Usage


def demo(
    once: Annotated[bool, typer.Option("--once", help="Print one reply and end.")] = False,
    headless: Annotated[
        bool, typer.Option("--headless", help="Print where it serves as JSON; serve until stopped.")
    ] = False,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Use the simulated engine: no downloads.")
    ] = False,
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="What --once asks.", show_default=False)
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Keep state and logs here afterwards.")
    ] = None,
) -> None:
    """From nothing to a reply on this machine, and everything gone again afterwards.

    Starts a control plane, a gateway and an agent on free ports of the loopback; the agent installs
    llama.cpp and fetches a small model (about 320 MB the first time, kept for later).
    """
    if once and headless:
        raise Usage("--once and --headless exclude each other")
    if not once and not headless:
        _check_terminal()
    module = importlib.import_module("llmgw.local.demo")
    options = module.Options(
        once=once, headless=headless, simulated=simulated, directory=directory, prompt=prompt
    )
    sys.exit(module.run(options))


def _check_terminal() -> None:
    """Refuse before anything starts when the console can't be shown."""
    try:
        importlib.import_module("llmgw_tui.launch").check_terminal()
    except Usage as error:
        hint = "--once prints one reply, --headless serves until it is stopped"
        raise Usage(error.message, hint=hint) from error
