"""What people changed, as a chain of rows."""

from llmgw.model.events import AuditEntry
from llmgw.store.rules.audit import AuditRow, Head, fault, following
from llmgw.store.values.rows import newest


class Audit:
    """The chain and where it ends."""

    def __init__(self) -> None:
        self.rows: list[AuditRow] = []
        self._head = Head()

    def add(self, entry: AuditEntry) -> None:
        """Append an entry to the chain."""
        row = following(self._head, entry)
        self.rows.append(row)
        self._head = Head(rows=row.number, sha256=row.sha256)

    def newest(self, limit: int) -> tuple[AuditEntry, ...]:
        """Return the newest entries, newest first."""
        return tuple(row.entry() for row in newest(self.rows, limit))

    def verify(self) -> str | None:
        """Return what is wrong with the chain, in words; None when it is whole."""
        return fault(self.rows, self._head)
