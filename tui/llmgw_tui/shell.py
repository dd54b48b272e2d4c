"""What the console needs of the terminal's side, and a line that somebody types."""

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Shell(Protocol):
    """What only the terminal's side can do."""

    def relist(self) -> None:
        """Close the watch and start again with a list."""
        ...

    def leave(self, code: int = 0) -> None:
        """End the console."""
        ...

    def use_theme(self, palette: str) -> None:
        """Let the terminal's side follow a palette."""
        ...

    def copy_to_clipboard(self, text: str) -> None:
        """Give a text to the terminal's clipboard."""
        ...


class Asking(NamedTuple):
    """What a line that somebody types is for."""

    changed: Callable[[str], str]
    done: Callable[[str], object]
    cancelled: Callable[[], object]
