"""The logs: one node and one source at a time, followed, searched."""

import re
from collections.abc import Callable
from functools import partial
from shlex import quote

from textual.app import ComposeResult

from llmgw.base.errors import LlmgwError
from llmgw_tui import keys
from llmgw_tui.dialogs.pick import Choice, Pick
from llmgw_tui.draw.places import Place
from llmgw_tui.draw.text import Pieces, said
from llmgw_tui.screens.desk import Desk
from llmgw_tui.screens.tail import Tail
from llmgw_tui.screens.view import Chosen, Heading, View
from llmgw_tui.store.fleet import Changes
from llmgw_tui.store.query import fuzzy
from llmgw_tui.widgets.loglines import LogLines

AGENT = "agent"


class LogsView(View):
    """One log. Its place: the node, and the source (empty: the agent's own log)."""

    own_keys = keys.LOG

    def __init__(self, desk: Desk, name: str) -> None:
        super().__init__(desk, name)
        self.log_lines = LogLines(desk.brush)
        self._tail = Tail(desk, self.log_lines, self._dirty)
        self._changed = False
        self._searched = ""
        self._listed: dict[str, tuple[str, ...]] = {}
        """Sources as nodes listed them, beside the shards that the fleet knows."""

    @property
    def body(self) -> LogLines:
        """Return the lines."""
        return self.log_lines

    def compose(self) -> ComposeResult:
        """Yield the lines."""
        yield self.log_lines

    def enter(self, place: Place) -> None:
        """Follow a place's log; without a node, the first one's."""
        if not place.id:
            place = self._somewhere(place)
        super().enter(place)
        if place.id:
            self._tail.start(place.id, place.detail or None)
        else:
            self.log_lines.clear("no node yet")

    def leave(self) -> None:
        """Stop following."""
        self._tail.stop()

    def update(self, changes: Changes) -> None:
        """Show new lines; follow again when the control plane is back."""
        if not self.place.id and changes.nodes:
            self.enter(self.place)
        if changes.connection and self.desk.fleet.connection.state == "live":
            self._tail.retry()
        if self._changed:
            self._changed = False
            self.log_lines.repaint()

    def heading(self) -> Heading:
        """Return node, source, and whether the end is followed."""
        notes: Pieces = said((self.place.id or "-", "strong"), " ▸ ", self.place.detail or AGENT)
        if self._searched:
            notes += said(("  /" + self._searched, "key"))
        state = "following" if self.log_lines.following else "stopped"
        return Heading("Logs", notes, f"{state}, {self.log_lines.count()} lines")

    def command(self) -> str:
        """Return the command that follows the same."""
        source = f" --source {quote(self.place.detail)}" if self.place.detail else ""
        return f"llmgw ctl logs {quote(self.place.id or 'NODE')}{source} --follow"

    def chosen(self) -> Chosen | None:
        """Return the lines that show."""
        return Chosen(self.log_lines.text())

    def crumb(self) -> str:
        """Return node and source."""
        return f"{self.place.id} {self.place.detail}".strip()

    def do(self, action: str) -> bool:
        """Follow, search, choose node or source, or move."""
        own: dict[str, Callable[[], object]] = {
            "follow": self.log_lines.follow,
            "filter": self._ask,
            "next": lambda: self._jump(1),
            "before": lambda: self._jump(-1),
            "source": self._pick_source,
            "node": self._pick_node,
            "source_next": lambda: self._cycle(1),
            "source_before": lambda: self._cycle(-1),
            "left": lambda: self.log_lines.sideways(-16),
            "right": lambda: self.log_lines.sideways(16),
        }
        run: Callable[[], object] | None = own.get(action)
        if run is None:
            return super().do(action)
        run()
        self.desk.repaint_edges()
        return True

    def filtered(self) -> bool:
        """Say whether matches are marked."""
        return bool(self._searched)

    def clear_filter(self) -> bool:
        """Stop marking matches; say whether there were any."""
        if not self.filtered():
            return False
        self._search("")
        return True

    def sources(self) -> tuple[str, ...]:
        """Return what can be read here: the agent (empty), shards, and what the node listed."""
        seen = self.desk.fleet.node(self.place.id)
        shards = [f"{replica.id}/{part.rank}" for replica, part in seen.shards] if seen else []
        listed = self._listed.get(self.place.id, ())
        return ("", *dict.fromkeys((*shards, *listed)))

    def _somewhere(self, place: Place) -> Place:
        """Return the place that was followed last, or the first node."""
        if self.place.id:
            return self.place
        first = min(self.desk.fleet.nodes, default="")
        return place._replace(id=first)

    def _go(self, node: str, source: str) -> None:
        self.log_lines.search(None)
        self._searched = ""
        self.enter(self.place._replace(id=node, detail=source))
        self.desk.repaint_edges()

    def _cycle(self, step: int) -> None:
        sources = self.sources()
        at = sources.index(self.place.detail) if self.place.detail in sources else 0
        self._go(self.place.id, sources[(at + step) % len(sources)])

    def _pick_node(self) -> None:
        fleet = self.desk.fleet

        def find(text: str) -> list[Choice]:
            names = [name for name in sorted(fleet.nodes) if fuzzy(text, name) is not None]
            return [
                Choice(name, fleet.state_of(name), partial(self._go, name, "")) for name in names
            ]

        self.desk.open_dialog(Pick("Node", find))

    def _pick_source(self) -> None:
        self.run_worker(self._ask_sources(), group="sources", exclusive=True, exit_on_error=False)

    async def _ask_sources(self) -> None:
        """Ask the node once what it has beside the shards that the fleet knows, then let choose."""
        node = self.place.id
        if node:
            try:
                answer = await self.desk.client.get(f"/nodes/{node}/logs", {"lines": 0})
                self._listed[node] = tuple(str(source) for source in answer.get("sources", ()))
            except LlmgwError as error:
                self.desk.say(error.message, "warn")
        if self.place.id == node:
            self.desk.open_dialog(Pick(f"Log of {node}", self._find_source))

    def _find_source(self, text: str) -> list[Choice]:
        found = [one for one in self.sources() if fuzzy(text, one or AGENT) is not None]
        return [
            Choice(one or AGENT, self._told(one), partial(self._go, self.place.id, one))
            for one in found
        ]

    def _told(self, source: str) -> str:
        replica = self.desk.fleet.replicas.get(source.rpartition("/")[0])
        return (
            f"{replica.model} {replica.state}" if replica else "the agent's own log" * (not source)
        )

    def _ask(self) -> None:
        before = self._searched
        self.desk.ask(
            "/",
            before,
            changed=self._search,
            done=self._search,
            cancelled=lambda: self._search(before),
        )

    def _search(self, text: str) -> str:
        """Mark what matches; return what is wrong with the pattern."""
        self._searched = text
        problem = ""
        pattern = None
        if text:
            try:
                pattern = re.compile(text, re.IGNORECASE)
            except re.error as error:
                problem = f"no regular expression: {error}"
                pattern = re.compile(re.escape(text), re.IGNORECASE)
        self.log_lines.search(pattern)
        return problem

    def _jump(self, direction: int) -> None:
        if not self.log_lines.next_match(direction):
            self.desk.say(
                "no further match" if self._searched else "nothing was searched: /", "dim"
            )

    def _dirty(self) -> None:
        self._changed = True
