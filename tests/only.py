"""The one thing in a sequence that must hold exactly one."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def only(items: Sequence[T] | None) -> T:
    """Return the single item; fail with what is there otherwise."""
    assert items is not None
    assert len(items) == 1, items
    return items[0]
