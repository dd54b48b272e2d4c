"""`llmgw ctl models`."""

from llmgw.cli import session, show
from llmgw.cli.options import Format, Output, Watch
from llmgw.cli.output import Column, print_rows, table
from llmgw.model.catalog import Model
from llmgw.model.record import Record


class ModelSeen(Record, frozen=True, kw_only=True):
    """A catalog entry as the API lists it: with how it is doing."""

    model: Model
    version: int
    changed: float
    changed_by: str
    wanted: int
    ready: int
    reason: str | None = None
    note: str | None = None


def _why(row: ModelSeen) -> str:
    """Return why it is not served, and what is the matter with its replicas."""
    return show.text("; ".join(filter(None, (row.reason, row.note))))


def _source(row: ModelSeen) -> str:
    source = row.model.source
    return type(source).__name__.removesuffix("Source").lower() if source else "none"


COLUMNS: tuple[Column[ModelSeen], ...] = (
    Column("MODEL", lambda r: r.model.name),
    Column("READY", lambda r: f"{r.ready}/{r.wanted}", right=True),
    Column("ENGINE", lambda r: ", ".join(dict.fromkeys(p.engine for p in r.model.profiles))),
    Column("SOURCE", _source),
    Column("WHY", _why),
    Column("VERSION", lambda r: str(r.version), wide=True, right=True),
    Column("CHANGED", lambda r: show.age(r.changed, session.now()), wide=True, right=True),
    Column("BY", lambda r: r.changed_by, wide=True),
    Column("PROFILES", lambda r: ", ".join(p.name for p in r.model.profiles), wide=True),
)


def models(output: Output = Format.TABLE, watch: Watch = False) -> None:
    """List models: how many replicas are wanted and ready, and why not."""
    if watch:
        from llmgw.cli.watching import follow

        wide = output is Format.WIDE
        # The counts come from replicas and nodes, so a change of those asks for the list anew.
        topics = ("models", "replicas", *(() if output is Format.JSON else ("nodes",)))
        follow(topics, lambda _: table(list(seen()), COLUMNS, wide=wide), output)
        return
    found = session.connect().get("/models")
    print_rows(
        session.typed(found, tuple[ModelSeen, ...], "models"),
        COLUMNS,
        output,
        name=lambda row: row.model.name,
        data=found,
        empty="no models; `llmgw ctl model add FILE` adds one",
    )


def seen() -> tuple[ModelSeen, ...]:
    """Return the models as the API lists them now."""
    return session.get("/models", tuple[ModelSeen, ...])
