"""A console on a recorded fleet, driven by a test: nothing happens by itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rich.style import Style
from textual.pilot import Pilot

from llmgw_tui.app import ConsoleApp
from llmgw_tui.console import Console, Look
from tests.fakes.clock import FakeClock
from tests.fakes.feed import FakeFeed
from tests.fakes.fleet_parts import NOW
from tests.fakes.fleets import FLEETS
from tests.fakes.flows import answers
from tests.waiting import wait_until

QUIET = {"empty", "cpu_starting"}
"""Fleets that nothing is asked of yet."""
WELL = {"gpu8"}
"""Fleets whose gateways and keys are well; of the others something is wrong with some."""
NEVER = 86_400.0
"""The flush timer of a test: it flushes itself."""
SNAPSHOTS = Path(__file__).resolve().parents[3] / "snapshots" / "console"


class Stage:
    """The console, its pilot and the control plane that it sees."""

    def __init__(self, app: ConsoleApp, pilot: Pilot[int], feed: FakeFeed, clock: FakeClock):
        self.app = app
        self.pilot = pilot
        self.feed = feed
        self.clock = clock

    @property
    def desk(self) -> Console:
        return self.app.desk

    async def flush(self) -> None:
        """Let the console take in what was said, and paint."""
        await wait_until(self._quiet, what="the console to come to rest")
        self.desk.flush()
        await wait_until(self._quiet, what="the console to come to rest")

    def _quiet(self) -> bool:
        """Say whether every message was handled, everything is laid out, and the feed is read."""
        frame = self.desk.frame
        pumps = (self.app, frame, *frame.walk_children())
        if any(not pump._message_queue.empty() for pump in pumps):
            return False
        asking = any(
            not worker.is_finished for worker in self.app.workers if worker.group == "history"
        )
        if asking and self.feed.answer_histories.is_set():
            return False
        acting = any(
            not worker.is_finished for worker in self.app.workers if worker.group == "action"
        )
        if self.desk.view.asking or acting:
            return False
        unpainted = frame._layout_required or frame._repaint_required or frame._dirty_widgets
        return not unpainted and (self.feed.taken or not self.feed.open_watches)

    async def call(self, *keys: str) -> None:
        """Give keys to the console directly: quicker than through the terminal's side."""
        for key in keys:
            self.desk.press(key, None)
            await self.flush()

    async def press(self, *keys: str) -> None:
        """Press keys, painting after each."""
        for key in keys:
            await self.pilot.press(key)
            await self.flush()

    async def type(self, text: str) -> None:
        """Type a text."""
        await self.press(*(_NAMES.get(character, character) for character in text))

    async def resize(self, width: int, height: int) -> None:
        """Give the terminal another size."""
        await self.pilot.resize_terminal(width, height)
        await self.flush()

    def lines(self) -> list[str]:
        """Return what the screen shows."""
        return [strip.text.rstrip() for strip in self.desk.frame.strips()]

    def text(self) -> str:
        """Return what the screen shows as one text."""
        return "\n".join(self.lines()) + "\n"

    def styles(self) -> list[list[tuple[str, Style]]]:
        """Return what the screen shows as runs of one style."""
        return [
            [(segment.text, segment.style or Style()) for segment in strip]
            for strip in self.desk.frame.strips()
        ]


_NAMES = {
    " ": "space", "/": "slash", "!": "exclamation_mark", "=": "equals_sign", "~": "tilde",
    "-": "minus", "[": "left_square_bracket", "]": "right_square_bracket", "(": "left_parenthesis",
    ".": "full_stop", "*": "asterisk", ":": "colon",
}  # fmt: skip


@asynccontextmanager
async def staged(
    fleet: str,
    width: int = 80,
    height: int = 24,
    *,
    look: Look | None = None,
    feed: FakeFeed | None = None,
) -> AsyncIterator[Stage]:
    """Open a console on a recorded fleet and wait until it shows it."""
    feed = feed or FakeFeed(FLEETS[fleet]())
    feed.answers = feed.answers or answers(busy=fleet not in QUIET, well=fleet in WELL)
    clock = FakeClock(NOW)
    app = ConsoleApp(feed, clock, look or Look(flush=NEVER))
    async with app.run_test(size=(width, height)) as pilot:
        stage = Stage(app, pilot, feed, clock)
        await pilot.pause()
        state = app.desk.fleet
        await wait_until(lambda: state.listed or state.connection.state == "refused")
        await stage.flush()
        yield stage
