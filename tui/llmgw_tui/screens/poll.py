"""Asking again and again for what no topic is followed of, while a screen shows that needs it."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

import msgspec
from textual.widget import Widget
from textual.worker import WorkType

from llmgw.base.errors import LlmgwError, Unreadable
from llmgw.base.units import show_seconds
from llmgw_tui.draw.text import Pieces, said
from llmgw_tui.screens.desk import Desk

T = TypeVar("T")
R = TypeVar("R")

OLD = 3.0
"""Periods without an answer after which what is shown is old."""


def read(answer: object, kind: type[R]) -> R:
    """Return an answer as a record, or as records.

    Raises:
        Unreadable: it has another shape.
    """
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise Unreadable(f"the control plane's answer can't be read: {error}") from error


class Poll(Generic[T]):
    """One question, asked each so many seconds; what was answered last stays until the next.

    Args:
        desk: the console.
        owner: the widget that the asking belongs to: it ends with it.
        fetch: asks.
        period: seconds between an answer and the next question.
        changed: called when there is something new to draw.
    """

    def __init__(
        self,
        desk: Desk,
        owner: Widget,
        fetch: Callable[[], Awaitable[T]],
        period: float,
        changed: Callable[[], None],
    ) -> None:
        self._desk = desk
        self._owner = owner
        self._fetch = fetch
        self._period = period
        self._changed = changed
        self._at: float | None = None
        self.value: T | None = None
        self.asking = False
        """A question is on its way, or about to be."""
        self.words = ""
        """Why the last one was not answered; empty: it was."""

    def start(self) -> None:
        """Ask now, and again each period."""
        self.asking = True
        work: WorkType[None] = partial(self._run)
        self._owner.run_worker(work, group="poll", exclusive=True, exit_on_error=False)

    def stop(self) -> None:
        """Ask no more; what is known stays for the next time."""
        self.asking = False
        self._owner.workers.cancel_group(self._owner, "poll")

    @property
    def is_old(self) -> bool:
        """Say whether what is shown is older than it should be."""
        return self._at is not None and self._age() > OLD * self._period

    def note(self) -> Pieces:
        """Return what a person has to know of how fresh it is: nothing while it is."""
        if self.value is None or not (self.words or self.is_old):
            return ()
        why = f": {self.words}" if self.words else ""
        return said((f"{show_seconds(int(self._age()))} old{why} ", "moving"))

    def _age(self) -> float:
        return 0.0 if self._at is None else max(0.0, self._desk.clock.monotonic() - self._at)

    async def _run(self) -> None:
        while True:
            self.asking = True
            try:
                self.value = await self._fetch()
            except LlmgwError as error:
                self.words = error.message
            else:
                self.words, self._at = "", self._desk.clock.monotonic()
            self.asking = False
            self._changed()
            await self._desk.clock.sleep(self._period)
