"""The console as a Textual app: life, signals, the watch, and how it ends."""

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from rich.console import RenderableType
from textual.app import App
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from llmgw.base.clock import Clock
from llmgw.client.interface import RECONNECTING, Connection, WatchBatch
from llmgw_tui.compat.driver import ConsoleDriver
from llmgw_tui.console import Console, Look
from llmgw_tui.draw.text import clean
from llmgw_tui.store.watch import ConsoleClient, feed
from llmgw_tui.theme import theme_name, themes
from llmgw_tui.themes.palette import PALETTES

RESTART_SECONDS = 2.0
"""Before the watch is started again after an error of its own."""
SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class ConsoleApp(App[int], inherit_bindings=False):
    """Runs one `Console`. It ends with the terminal restored, whatever ends it.

    Args:
        client: lists, watches and reads logs.
        clock: the time that ages are told by.
        look: how it looks.
        hard_exit: called with the exit code when a signal came, to end the process if leaving
            hangs; None leaves signals alone.
    """

    CSS_PATH = "console.tcss"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    AUTO_FOCUS = None
    TITLE = "llmgw"

    def __init__(
        self,
        client: ConsoleClient,
        clock: Clock,
        look: Look,
        *,
        hard_exit: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(driver_class=ConsoleDriver)
        self._disable_tooltips = True
        self._disable_notifications = True
        self.desk = Console(client, clock, look, self)
        self.crash: BaseException | None = None
        """What ended the console, when it was an error."""
        self._hard_exit = hard_exit
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._leaving = False
        for theme in themes():
            self.register_theme(theme)
        self.use_theme(look.palette)

    def get_default_screen(self) -> Screen[Any]:
        """Return the frame: there is no other screen."""
        return self.desk.frame

    def on_mount(self) -> None:
        """Take signals over, show the overview, start watching."""
        self._own_loop = asyncio.get_running_loop()
        if self._hard_exit is not None:
            for name in SIGNALS:
                self._own_loop.add_signal_handler(name, self.leave, 128 + name)
        self.set_interval(self.desk.look.flush, self.desk.flush)
        # The first paint comes first: opening the connection costs more than drawing.
        self.call_after_refresh(self.relist)

    async def on_unmount(self) -> None:
        """Close the client's connections."""
        await self.desk.client.close()

    def relist(self) -> None:
        """Close the watch, if one is open, and start with a list."""
        desk = self.desk
        watching = feed(desk.fleet, desk.client, desk.clock)
        self.run_worker(watching, group="watch", exclusive=True, exit_on_error=False)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Say that a task broke by a fault of its own; the watch is started again."""
        if event.state != WorkerState.ERROR:
            return
        fleet = self.desk.fleet
        words = clean(f"internal error in the {event.worker.group}: {event.worker.error!r}")
        if event.worker.group != "watch":
            self.desk.say(words, "down")
            return
        now, heard = self.desk.clock.now(), fleet.connection.heard
        fleet.take(WatchBatch(Connection(RECONNECTING, now, heard, words)))
        self.set_timer(RESTART_SECONDS, self.relist)

    def use_theme(self, palette: str) -> None:
        """Let Textual's own part follow a palette."""
        self.theme = theme_name(PALETTES[palette])

    def terminal_lost(self) -> None:
        """Leave: nobody is there to see anything. May be called from any thread."""
        loop = self._own_loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self.leave, 128 + signal.SIGHUP)

    def leave(self, code: int = 0) -> None:
        """End with an exit code; the terminal is restored on the way."""
        if self._leaving:
            return
        self._leaving = True
        if self._hard_exit is not None:
            self._hard_exit(code)
        self.exit(return_code=code)

    def _fatal_error(self) -> None:
        """End without Textual's traceback: it prints local variables, and some are secret."""
        self.crash = self._exception
        self._close_messages_no_wait()

    def panic(self, *renderables: RenderableType) -> None:
        """End without printing what was given, for the same reason."""
        del renderables
        self.crash = self.crash or self._exception or RuntimeError("the terminal layer gave up")
        self._return_code = self._return_code or 1
        self._close_messages_no_wait()

    def _print_error_renderables(self) -> None:
        self._exit_renderables.clear()
