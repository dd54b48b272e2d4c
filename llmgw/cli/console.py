"""`llmgw console`: hands over to the console, which is loaded only then."""

import importlib
import sys
from typing import Annotated

import typer


def console(
    context: Annotated[
        str | None, typer.Option("--context", help="Which cluster, by its context's name.")
    ] = None,
    readonly: Annotated[
        bool, typer.Option("--readonly", help="Offer nothing that changes.")
    ] = False,
    theme: Annotated[
        str | None, typer.Option("--theme", help="dark, light, contrast, ansi.")
    ] = None,
    ascii_: Annotated[bool, typer.Option("--ascii", help="Draw with ASCII characters.")] = False,
    slow: Annotated[bool, typer.Option("--slow", help="For slow links: repaint less.")] = False,
    no_mouse: Annotated[
        bool, typer.Option("--no-mouse", help="Leave the mouse to the terminal.")
    ] = False,
) -> None:
    """Open the full-screen console."""
    launch = importlib.import_module("llmgw_tui.launch")
    options = launch.Options(
        context=context,
        readonly=readonly,
        theme=theme,
        ascii=ascii_,
        slow=slow,
        mouse=not no_mouse,
    )
    sys.exit(launch.run(options))
