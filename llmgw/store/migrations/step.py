"""One step of the schema."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlite_utils import Database


@dataclass(frozen=True, slots=True)
class Step:
    """A change of the schema, under a name that is recorded in the store when it was made."""

    name: str
    apply: Callable[[Database], None]
    """Runs inside a transaction."""
