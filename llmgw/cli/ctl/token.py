"""`llmgw ctl token`: operators' tokens for the admin API."""

from typing import Annotated

import typer

from llmgw.base.errors import NotFound
from llmgw.cli import session, show
from llmgw.cli.lazy import Entry, lazy_app
from llmgw.cli.options import DryRun, Format, Output, Yes
from llmgw.cli.output import Column, agreed, note, print_data, print_rows, say
from llmgw.model.record import Record

HERE = "llmgw.cli.ctl.token"

ENTRIES = {
    "list": Entry(f"{HERE}:list_all", "List tokens; the tokens themselves are stored nowhere."),
    "add": Entry(f"{HERE}:add", "Make a token of a role: read, operate, admin, metrics."),
    "rm": Entry(f"{HERE}:remove", "Remove a token."),
}

app = lazy_app(ENTRIES, "Operators' tokens for the admin API.")


class TokenSeen(Record, frozen=True, kw_only=True):
    """A token as the API lists it."""

    id: str
    name: str
    role: str
    created: float


COLUMNS: tuple[Column[TokenSeen], ...] = (
    Column("TOKEN", lambda t: t.id),
    Column("NAME", lambda t: t.name),
    Column("ROLE", lambda t: t.role),
    Column("CREATED", lambda t: show.age(t.created, session.now()), right=True),
)


def list_all(output: Output = Format.TABLE) -> None:
    """List tokens; the tokens themselves are stored nowhere."""
    found = session.get("/tokens", tuple[TokenSeen, ...])
    print_rows(found, COLUMNS, output, name=lambda t: t.id)


def add(
    name: Annotated[str, typer.Argument(help="Whose it is, or what for.")],
    role: Annotated[str, typer.Option("--role", help="read, operate, admin or metrics.")] = "read",
    output: Output = Format.TABLE,
) -> None:
    """Make a token; it is shown once and stored nowhere."""
    answer = session.connect().post("/tokens", {"name": name, "role": role})
    if output in (Format.JSON, Format.YAML):
        print_data(answer, output)
        return
    say(answer["token"])
    note(f"token {answer['id']} of {name}, role {role}: shown this once")


def remove(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="The token's id.")],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Remove a token; it is refused from then on."""
    tokens = session.get("/tokens", tuple[TokenSeen, ...])
    found = next((one for one in tokens if one.id == token), None)
    if found is None:
        raise NotFound(f"no token with the id {token!r}", hint="list them: llmgw ctl token list")
    words = f"{token} ({found.name}): commands with it will be refused"
    if not agreed(words, token, yes=yes, dry_run=dry_run):
        return
    session.connect().delete(f"/tokens/{token}")
    say(f"{token} is removed")
