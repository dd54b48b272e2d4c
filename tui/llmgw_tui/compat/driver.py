"""The terminal driver: as Textual's, but a terminal that went away ends the console in order."""

from collections.abc import Callable
from typing import Any, TextIO, cast

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver


class _Guarded:
    """A terminal to write to; what it cannot take any more is dropped and told once."""

    def __init__(self, file: TextIO, lost: Callable[[], None]) -> None:
        self._file = file
        self._lost = lost
        self._gone = False

    def write(self, text: str) -> int:
        return self._try(lambda: self._file.write(text)) or 0

    def flush(self) -> None:
        self._try(self._file.flush)

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()

    def _try(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401
        if self._gone:
            return None
        try:
            return call()
        except (OSError, ValueError):
            self._gone = True
            self._lost()
            return None


class ConsoleDriver(LinuxDriver):
    """Textual's driver with a guarded file, quiet key thread and clicks without mouse movements.

    Without the guard a closed terminal ends the writer's thread, its queue fills, and leaving
    hangs for ever; the key thread shows a traceback with local variables.
    """

    def __init__(self, app: App[Any], **options: Any) -> None:  # noqa: ANN401
        super().__init__(app, **options)
        guarded = _Guarded(cast("TextIO", self._file), self._terminal_lost)
        self._file = cast("Any", guarded)

    def _terminal_lost(self) -> None:
        lost = getattr(self._app, "terminal_lost", None)
        if lost is not None:
            lost()

    def _run_input_thread(self) -> None:
        try:
            self.run_input_thread()
        except OSError:
            self._terminal_lost()

    def stop_application_mode(self) -> None:
        """Clear the screen, then leave it: tmux keeps what is on one that has grown meanwhile."""
        self.write("\x1b[2J")
        super().stop_application_mode()

    def _enable_mouse_support(self) -> None:
        """Ask for clicks and the wheel; movements would be sent up a slow line for nothing."""
        if self._mouse:
            self.write("\x1b[?1000h\x1b[?1006h")
            self.flush()

    def _disable_mouse_support(self) -> None:
        if self._mouse:
            self.write("\x1b[?1000l\x1b[?1006l")
            self.flush()

    def _enable_mouse_pixels(self) -> None:
        """Cells are enough."""
