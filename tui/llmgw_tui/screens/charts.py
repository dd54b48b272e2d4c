"""What a node's charts are made of: one request when they are opened, then the watch."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from textual.widget import Widget
from textual.worker import WorkType

from llmgw.base.errors import LlmgwError
from llmgw.model.history import HOUR
from llmgw.model.node import Sample
from llmgw_tui.draw.trends import Trends
from llmgw_tui.screens.desk import Desk
from llmgw_tui.store.past import Past

ASKING = "asking the control plane how it was …"


class Charts:
    """The past of the node that shows.

    It is asked for when a node is opened, when more time is wanted than there is, and when the
    control plane was away.

    Args:
        desk: the console.
        owner: the widget that the request belongs to: it ends with it.
        changed: called when there is something new to draw.
    """

    def __init__(self, desk: Desk, owner: Widget, changed: Callable[[], None]) -> None:
        self._desk = desk
        self._owner = owner
        self._changed = changed
        self._of: tuple[str, int] | None = None
        self._past: Past | None = None
        self._words = ""

    def open(self, node: str, minutes: int) -> None:
        """Ask for a node's past; nothing happens when it is there or on its way."""
        minutes = max(HOUR, minutes)
        if self._of != (node, minutes):
            self._ask(node, minutes)

    def again(self) -> None:
        """Ask once more: while the control plane was away nothing was heard."""
        if self._of is not None:
            self._ask(*self._of)

    def close(self) -> None:
        """Forget it, and end the request."""
        self._of, self._past = None, None
        self._owner.workers.cancel_group(self._owner, "history")

    def add(self, sample: Sample | None) -> None:
        """Carry on with a heartbeat."""
        if self._past is not None and sample is not None:
            self._past.add(sample)

    def seen(self) -> Trends:
        """Return what is known of the past."""
        if self._past is None:
            return Trends(words=self._words)
        told = self._past.seen()
        return replace(told, words=self._words) if self._words else told

    def _ask(self, node: str, minutes: int) -> None:
        if self._of is None or self._of[0] != node:
            self._past = None
        self._of = (node, minutes)
        self._words = ASKING if self._past is None else ""
        # As a function: of one that is replaced before it begins no coroutine is left over.
        work: WorkType[None] = partial(self._fetch, node, minutes)
        self._owner.run_worker(work, group="history", exclusive=True, exit_on_error=False)

    async def _fetch(self, node: str, minutes: int) -> None:
        past, words = self._past, ""
        try:
            past = Past(await self._desk.client.history(node, minutes=minutes))
        except LlmgwError as error:
            hint = "" if error.hint is None else f" ({error.hint})"
            words = f"how it was can't be told: {error.message}{hint}"
        if self._of == (node, minutes):
            self._past, self._words = past, words
            # What was heard while the answer was on its way.
            self.add(self._desk.fleet.samples.get(node))
            self._changed()
