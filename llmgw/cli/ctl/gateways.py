"""`llmgw ctl gateways`."""

from llmgw.cli import session, show
from llmgw.cli.options import Format, Output
from llmgw.cli.output import Column, print_rows
from llmgw.model.gateway import Gateway, WorkerStart

COLUMNS: tuple[Column[Gateway], ...] = (
    Column("GATEWAY", lambda g: g.id),
    Column("STATE", lambda g: "connected" if g.connected else "away"),
    Column("SINCE", lambda g: show.age(g.since, session.now()), right=True),
    Column("URL", lambda g: show.text(g.url)),
    Column("WORKERS", lambda g: show.text(g.workers), right=True),
    Column("BEGAN", lambda g: _began(g.started or ()), right=True),
    Column("VERSION", lambda g: show.text(g.version), wide=True),
    Column("PEER", lambda g: show.text(g.peer), wide=True),
)


def _began(workers: tuple[WorkerStart, ...]) -> str:
    """Return how long ago workers began: the newest and the oldest, when they differ."""
    began = [one.began for one in workers]
    if not began:
        return show.text(None)
    newest, oldest = (show.age(at, session.now()) for at in (max(began), min(began)))
    return newest if newest == oldest else f"{newest} to {oldest}"


def gateways(output: Output = Format.TABLE) -> None:
    """List gateways: what users' requests go through."""
    found = session.get("/gateways", tuple[Gateway, ...])
    print_rows(
        found,
        COLUMNS,
        output,
        name=lambda g: g.id,
        empty="no gateways; `llmgw ctl gateway token NAME` lets one join",
    )
