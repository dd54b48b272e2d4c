"""`llmgw ctl gateway`: let a gateway join."""

from typing import Annotated

import typer

from llmgw.cli.ctl.node import print_token
from llmgw.cli.lazy import Entry, lazy_app
from llmgw.cli.options import Format, Output

ENTRIES = {
    "token": Entry(
        "llmgw.cli.ctl.gateway:token", "Make a one-time token with which a gateway joins."
    ),
}

app = lazy_app(ENTRIES, "Let a gateway join.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The gateway's id.")]


def token(name: Name, output: Output = Format.TABLE) -> None:
    """Make a one-time token with which a gateway of that name joins."""
    print_token("gateway", name, "gateway", output)
