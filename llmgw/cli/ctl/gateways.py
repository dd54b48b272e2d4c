"""`llmgw ctl gateways`."""

from llmgw.cli import session, show
from llmgw.cli.options import Format, Output
from llmgw.cli.output import Column, print_rows
from llmgw.model.gateway import Gateway

COLUMNS: tuple[Column[Gateway], ...] = (
    Column("GATEWAY", lambda g: g.id),
    Column("STATE", lambda g: "connected" if g.connected else "away"),
    Column("SINCE", lambda g: show.age(g.since, session.now()), right=True),
    Column("URL", lambda g: show.text(g.url)),
    Column("WORKERS", lambda g: show.text(g.workers), right=True),
    Column("VERSION", lambda g: show.text(g.version), wide=True),
    Column("PEER", lambda g: show.text(g.peer), wide=True),
)


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
