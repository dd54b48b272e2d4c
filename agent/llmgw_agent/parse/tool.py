"""A tool whose output can be read, as `llmgw parse` offers it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """One kind of output.

    `read` takes the whole text and returns a record, or a tuple or mapping of records; it raises
    `Unreadable` alone. `how` is the command that prints such a text.
    """

    name: str
    how: str
    read: Callable[[str], object]
    read_fields: Callable[[str, tuple[str, ...]], object] | None = None
    """Reads a text that does not name its columns; it is given their names."""
