"""Reading lists of rows as a database's LIMIT does, and values as a database gives them back."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")


def newest(rows: Sequence[T], limit: int) -> list[T]:
    """Return the last rows, newest first."""
    return list(reversed(rows[max(0, len(rows) - limit) :]))


def as_kept(record: T) -> T:
    """Return a record as it is read back: nobody's later change of a dict in it reaches the store.

    Types become those of the record: a 1 where a 1.0 belongs would give another fingerprint.
    """
    return msgspec.json.decode(msgspec.json.encode(record), type=type(record))
