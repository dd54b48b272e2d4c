"""The screen of traffic: how requests go, and those that are in flight."""

from collections.abc import Callable, Iterable, Sequence

from textual.app import ComposeResult

from llmgw.model.flow import Flow, FlowHistory
from llmgw.model.live import RequestsCancelled, RequestShown, RequestsShown
from llmgw.model.record import Record
from llmgw_tui import keys
from llmgw_tui.dialogs.confirm import Confirm
from llmgw_tui.draw import flow, live
from llmgw_tui.draw.page import PageLine
from llmgw_tui.draw.places import LOGS, REPLICA, Place
from llmgw_tui.draw.table import Row
from llmgw_tui.draw.text import said
from llmgw_tui.screens.acting import act, may_act
from llmgw_tui.screens.desk import Desk
from llmgw_tui.screens.lists import ListView
from llmgw_tui.screens.poll import Poll, read
from llmgw_tui.screens.view import Heading
from llmgw_tui.store.fleet import Changes
from llmgw_tui.widgets.page import Page
from llmgw_tui.widgets.scrolled import Scrolled

PERIOD = 2.0
LIST_SHARE = 0.4
LIST_LEAST = 7
"""Lines that the list of requests gets: a title, the heads, some requests."""
HISTORY_EACH = 5
"""Answers of the moment between two of the last hour, which goes on each ten seconds."""

Seen = tuple[Flow, RequestsShown]


class TrafficView(ListView):
    """How requests go, above; the requests in flight, below. Tab leads from one to the other."""

    own_keys = keys.TRAFFIC
    title = "Traffic"
    columns = live.COLUMNS
    first_sort = "age"
    nothing = "no request is in flight"

    def __init__(self, desk: Desk, name: str) -> None:
        super().__init__(desk, name)
        self.grid.head = 2
        self.sheet = Page(desk.brush, self.build, id="flow")
        self._poll = Poll(desk, self, self._ask, PERIOD, self._came)
        self._past: FlowHistory | None = None
        self._asked = 0
        self._requests: dict[str, RequestShown] = {}
        self._series = ""
        self._in_page = False
        self._news = False

    @property
    def asking(self) -> bool:
        """Say whether a question is on its way."""
        return self._poll.asking

    @property
    def outdated(self) -> bool:
        """Say whether what is shown is older than it should be."""
        return self._poll.value is not None and (bool(self._poll.words) or self._poll.is_old)

    @property
    def bodies(self) -> tuple[Scrolled, ...]:
        """Return page and list."""
        return (self.sheet, self.grid)

    @property
    def body(self) -> Scrolled:
        """Return what keys go to."""
        return self.sheet if self._in_page else self.grid

    def compose(self) -> ComposeResult:
        """Yield page and list."""
        yield self.sheet
        yield self.grid

    def build(self, width: int, height: int) -> Sequence[PageLine]:
        """Return the page."""
        seen = self._poll.value
        if seen is None:
            words = self._poll.words or "asking the control plane …"
            return (PageLine(said((words, "dim"))),)
        return flow.page(seen[0], self._past, width, height, self._series)

    def ids(self) -> Iterable[str]:
        """Return the requests' ids."""
        return self._requests

    def row(self, row_id: str) -> Row | None:
        """Return a request's row."""
        one = self._requests.get(row_id)
        return None if one is None else live.row(one)

    def touched(self, changes: Changes) -> set[str]:
        """Return none: what is in flight is asked for, not followed."""
        del changes
        return set()

    def enter(self, place: Place) -> None:
        """Show it, and ask from now on."""
        self._asked = 0
        self._poll.start()
        super().enter(place)
        self._show_page()

    def leave(self) -> None:
        """Ask no more."""
        self._poll.stop()

    def update(self, changes: Changes) -> None:
        """Take in what was answered since."""
        back = changes.connection and self.desk.fleet.connection.state == "live"
        if back:
            self._poll.start()
        if self._news or changes.everything:
            self._news = False
            seen = self._poll.value
            found = seen[1].requests if seen is not None else ()
            gone = self._requests.keys() - {one.id for one in found}
            self._requests = {one.id: one for one in found}
            changed = [one for one in (*self._requests, *gone) if self._remake(one)]
            if changed and (self._may_sort() or not self._shown):
                self._arrange(changed)
            elif changed:
                self._keep_places(changed)
            self._show_page()
            self.desk.repaint_edges()

    def on_resize(self) -> None:
        """Share the room between page and list."""
        height = self.size.height
        self.grid.styles.height = max(min(LIST_LEAST, height // 2), int(height * LIST_SHARE))
        self._show_page()

    def heading(self) -> Heading:
        """Return title, filter, counts, and how old it is when it is not fresh."""
        found = super().heading()
        return found._replace(notes=(*found.notes, *self._poll.note()))

    def do(self, action: str) -> bool:
        """End requests, choose a chart, go between page and list, or move."""
        own: dict[str, Callable[[], object]] = {
            "pane": self._other_pane,
            "series_next": lambda: self._choose(1),
            "series_before": lambda: self._choose(-1),
            "cancel": lambda: self._ask_cancel(all_shown=False),
            "cancel_all": lambda: self._ask_cancel(all_shown=True),
        }
        run = own.get(action)
        if run is None:
            return super().do(action)
        run()
        return True

    def idle(self) -> frozenset[str]:
        """Return the keys that would do nothing: nothing is in flight, or nothing may be done."""
        may = bool(self._shown) and not self.desk.readonly
        return frozenset() if may else frozenset({"cancel", "cancel_all"})

    def records(self, row_id: str) -> tuple[Record, ...]:
        """Return the request."""
        one = self._requests.get(row_id)
        return () if one is None else (one,)

    def target(self) -> Place | None:
        """Return the replica that has the request."""
        one = self._requests.get(self.grid.cursor or "")
        return Place(REPLICA, one.replica) if one is not None and one.replica else None

    def logs(self) -> Place | None:
        """Return the log of the engine that has it."""
        one = self._requests.get(self.grid.cursor or "")
        replica = self.desk.fleet.replicas.get(one.replica or "") if one is not None else None
        if replica is None or not replica.shards:
            return None
        part = replica.shards[0]
        return Place(LOGS, part.node, f"{replica.id}/{part.rank}")

    def command(self) -> str:
        """Return the command that shows the same."""
        return "llmgw ctl traffic" if self._in_page else "llmgw ctl requests"

    # Asking.

    async def _ask(self) -> Seen:
        client = self.desk.client
        if self._asked % HISTORY_EACH == 0:
            self._past = read(await client.get("/traffic-history"), FlowHistory)
        self._asked += 1
        seen = read(await client.get("/traffic"), Flow)
        return seen, read(await client.get("/requests", {"limit": 500}), RequestsShown)

    def _came(self) -> None:
        self._news = True

    # Showing.

    def _show_page(self) -> None:
        seen = self._poll.value
        title, notes = live.caption(seen[1] if seen is not None else None)
        self.grid.title = title if self._in_page else f"▸ {title}"
        self.grid.notes = notes
        self.sheet.rebuild()
        self.grid.repaint()

    def _other_pane(self) -> None:
        self._in_page = not self._in_page
        self._show_page()

    def _choose(self, step: int) -> None:
        width = self.sheet.inner_width(self.sheet.size.width)
        self._series = flow.other_series(self._series, step, width)
        self.sheet.rebuild()
        self.sheet.show(charts_at(self.sheet.built))

    # Ending requests.

    def _ask_cancel(self, *, all_shown: bool) -> None:
        wanted = [row.id for row in self._shown] if all_shown else [self.grid.cursor or ""]
        chosen = [self._requests[one] for one in wanted if one in self._requests]
        if not chosen or not may_act(self.desk):
            return
        one = f"Cancel {chosen[0].id}"
        self.desk.open_dialog(
            Confirm(
                one if len(chosen) == 1 else f"Cancel {len(chosen)} requests",
                live.effects(chosen),
                live.command(chosen),
                name=live.name(chosen),
                agreed=lambda: act(self.desk, self, lambda: self._cancel(chosen)),
                copy=self.desk.copy,
            )
        )

    async def _cancel(self, chosen: Sequence[RequestShown]) -> None:
        body = {"ids": [one.id for one in chosen]}
        answer = await self.desk.client.post("/requests/cancel", body)
        done = read(answer, RequestsCancelled)
        self.desk.say(*live.done(len(done.cancelled), len(done.gone)))
        self._poll.start()


def charts_at(lines: Sequence[PageLine]) -> range:
    """Return the lines of a page from its charts' title on."""
    titles = ("".join(piece.text for piece in line.pieces) for line in lines)
    first = next((at for at, text in enumerate(titles) if text.startswith(flow.CHARTS)), None)
    return range(0) if first is None else range(first, len(lines))
