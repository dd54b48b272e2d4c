"""`llmgw ctl audit`."""

from llmgw.base.units import show_moment
from llmgw.cli import session, show
from llmgw.cli.options import Format, Output
from llmgw.cli.output import Column, print_rows
from llmgw.model.events import AuditEntry

COLUMNS: tuple[Column[AuditEntry], ...] = (
    Column("WHEN", lambda e: show_moment(e.at)),
    Column("WHO", lambda e: e.actor),
    Column("DID", lambda e: e.action),
    Column("TO", lambda e: e.subject),
    Column("BEFORE", lambda e: show.text(e.before), wide=True),
    Column("AFTER", lambda e: show.text(e.after), wide=True),
)


def audit(output: Output = Format.TABLE) -> None:
    """List who changed what, newest first."""
    found = session.get("/audit", tuple[AuditEntry, ...])
    print_rows(found, COLUMNS, output, name=lambda e: e.subject, empty="nothing was changed yet")
