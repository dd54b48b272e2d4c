"""The audit as a chain: each row carries the sha256 of the former one and of itself.

Changing, removing or adding a row breaks the chain from there on; the last row's sha256 is kept
apart, so that cutting off the end shows too. It proves damage and careless hands, not an attacker
who may write the store and computes it all anew.
"""

import hashlib
from collections.abc import Iterable

import msgspec

from llmgw.base.secrets import redact
from llmgw.model.events import AuditEntry
from llmgw.model.record import Record

NO_ROW = "0" * 64
"""What the first row names as its former one."""


class Head(Record, frozen=True, kw_only=True):
    """Where the chain ends, kept apart from it."""

    rows: int = 0
    sha256: str = NO_ROW


class AuditRow(Record, frozen=True, kw_only=True):
    """One row of the chain."""

    number: int
    at: float
    actor: str
    action: str
    subject: str
    before: str | None
    after: str | None
    former: str
    sha256: str

    def entry(self) -> AuditEntry:
        """Return what it says, without its place in the chain."""
        return AuditEntry(
            at=self.at,
            actor=self.actor,
            action=self.action,
            subject=self.subject,
            before=self.before,
            after=self.after,
        )


def following(head: Head, entry: AuditEntry) -> AuditRow:
    """Return the row that an entry becomes at the end of the chain; secrets in it are hidden."""
    row = AuditRow(
        number=head.rows + 1,
        at=float(entry.at),
        actor=entry.actor,
        action=entry.action,
        subject=entry.subject,
        before=None if entry.before is None else redact(entry.before),
        after=None if entry.after is None else redact(entry.after),
        former=head.sha256,
        sha256="",
    )
    return msgspec.structs.replace(row, sha256=_digest(row))


def fault(rows: Iterable[AuditRow], head: Head) -> str | None:
    """Return what is wrong with a chain, in words; None when it is whole.

    Args:
        rows: by number.
        head: where it ends as it was last written.
    """
    former, number = NO_ROW, 0
    for row in rows:
        number += 1
        if row.number != number:
            return f"audit row {number} is missing; row {row.number} stands there"
        if row.former != former:
            return f"audit row {number} does not follow the row before it"
        if row.sha256 != _digest(row):
            return f"audit row {number} was changed after it was written"
        former = row.sha256
    if (head.rows, head.sha256) != (number, former):
        return f"the audit ends at row {number}; {head.rows} rows were written"
    return None


def _digest(row: AuditRow) -> str:
    fields = msgspec.structs.astuple(row)[:-1]
    return hashlib.sha256(msgspec.json.encode(fields)).hexdigest()
