"""Following one log: the only request beside the watch, open only while somebody looks."""

from collections.abc import Callable

from llmgw.base.errors import LlmgwError
from llmgw_tui.screens.desk import Desk
from llmgw_tui.widgets.loglines import LogLines

FIRST_LINES = 500
"""Lines that are asked for when a log is opened."""


class Tail:
    """Fills a `LogLines` from one source at a time.

    Args:
        desk: the console.
        lines: where the lines go.
        changed: called when there is something new to paint.
    """

    def __init__(self, desk: Desk, lines: LogLines, changed: Callable[[], None]) -> None:
        self._desk = desk
        self._lines = lines
        self._changed = changed
        self._of: tuple[str, str | None] | None = None
        self._broken = False

    @property
    def broken(self) -> bool:
        """Say whether following ended by itself."""
        return self._broken

    def start(self, node: str, source: str | None, *, again: bool = False) -> None:
        """Follow this from now on; nothing happens when it is followed already."""
        if self._of == (node, source) and not again:
            return
        self._of = (node, source)
        self._broken = False
        self._lines.clear("waiting for the first lines …")
        self._lines.run_worker(
            self._follow(node, source), group="log", exclusive=True, exit_on_error=False
        )

    def stop(self) -> None:
        """Close the request."""
        if self._of is not None:
            self._of = None
            self._lines.workers.cancel_node(self._lines)

    def retry(self) -> None:
        """Follow again what broke, now that the control plane is back."""
        if self._broken and self._of is not None:
            self.start(*self._of, again=True)

    async def _follow(self, node: str, source: str | None) -> None:
        try:
            async for batch in self._desk.client.follow_logs(node, source, FIRST_LINES):
                self._lines.words = "no lines yet"
                self._lines.add(batch.lines, batch.dropped)
                self._changed()
            words = "the log ended"
        except LlmgwError as error:
            words = error.message if error.hint is None else f"{error.message} ({error.hint})"
        if self._of == (node, source):
            self._broken = True
            self._lines.words = words
            self._lines.add((f"-- {words}",) if self._lines.count() else ())
            self._changed()
