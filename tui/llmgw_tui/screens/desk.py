"""What a screen may ask of the console around it."""

from collections.abc import Callable
from typing import Protocol

from llmgw.base.clock import Clock
from llmgw_tui.dialogs.dialog import Dialog
from llmgw_tui.draw.places import Place
from llmgw_tui.draw.seen import When
from llmgw_tui.store.fleet import Fleet
from llmgw_tui.store.watch import ConsoleClient
from llmgw_tui.widgets.drawn import Brush


class Desk(Protocol):
    """The console, as its screens see it."""

    fleet: Fleet
    client: ConsoleClient
    clock: Clock
    brush: Brush

    @property
    def readonly(self) -> bool:
        """Say whether nothing may be changed from here."""
        ...

    def copy(self, text: str, *, says: str = "") -> None:
        """Give a text to the terminal's clipboard; `says` what is told in place of the text."""
        ...

    def when(self) -> When:
        """Return this moment, for drawing."""
        ...

    def go(self, place: Place) -> None:
        """Open a place; Escape leads back to where one is."""
        ...

    def say(self, words: str, role: str = "text") -> None:
        """Show a passing note at the panel's lower edge."""
        ...

    def ask(
        self,
        prefix: str,
        text: str,
        *,
        changed: Callable[[str], str],
        done: Callable[[str], object],
        cancelled: Callable[[], object],
    ) -> None:
        """Let somebody type a line at the panel's lower edge.

        Args:
            prefix: what stands before it.
            text: what it starts with.
            changed: called at each change; returns what is wrong with it, or nothing.
            done: called with the text at Enter.
            cancelled: called at Escape.
        """
        ...

    def open_dialog(self, dialog: Dialog) -> None:
        """Put a dialog over the screen."""
        ...

    def repaint_edges(self) -> None:
        """Draw title, side bar, panel edges and key bar anew, as far as they changed."""
        ...
