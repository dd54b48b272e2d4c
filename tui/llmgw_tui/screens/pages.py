"""Screens that are pages of facts: overview, node, replica, model."""

from collections.abc import Sequence
from shlex import quote

from textual.app import ComposeResult

from llmgw.model.record import Record
from llmgw_tui import keys
from llmgw_tui.draw import details, node, overview, trends
from llmgw_tui.draw.page import PageLine
from llmgw_tui.draw.places import LOGS, Place
from llmgw_tui.draw.text import said
from llmgw_tui.draw.trends import Choice
from llmgw_tui.screens.charts import Charts
from llmgw_tui.screens.desk import Desk
from llmgw_tui.screens.tail import Tail
from llmgw_tui.screens.view import Chosen, Heading, View
from llmgw_tui.store.fleet import Changes
from llmgw_tui.widgets.loglines import LogLines
from llmgw_tui.widgets.page import Page
from llmgw_tui.widgets.scrolled import Scrolled

_CHART_ACTIONS = frozenset({"series_next", "series_before", "device_next", "device_before", "time"})
LOG_TITLE = "Log of the agent"
ROOM_FOR_LOG = 34
"""Lines from which a node's page shows its log below without being asked."""


class PageView(View):
    """One page. The subclass builds it and says which changes concern it."""

    own_keys: tuple[keys.Key, ...] = keys.PAGE
    title = ""

    def __init__(self, desk: Desk, name: str) -> None:
        super().__init__(desk, name)
        self.sheet = Page(desk.brush, self.build)

    def build(self, width: int, height: int) -> Sequence[PageLine]:
        """Return the page."""
        raise NotImplementedError

    def concerns(self, changes: Changes) -> bool:
        """Say whether the page may look different after these changes."""
        raise NotImplementedError

    @property
    def body(self) -> Scrolled:
        """Return the page."""
        return self.sheet

    def compose(self) -> ComposeResult:
        """Yield the page."""
        yield self.sheet

    def enter(self, place: Place) -> None:
        """Show a place's page, from its top when it is another."""
        if place != self.place:
            self.sheet.reset()
        super().enter(place)
        self.sheet.rebuild()

    def update(self, changes: Changes) -> None:
        """Build the page anew when it may differ."""
        if changes.everything or changes.minute or self.concerns(changes):
            self.sheet.rebuild()

    def target(self) -> Place | None:
        """Return where the chosen spot leads."""
        return self.sheet.target

    def heading(self) -> Heading:
        """Return the title and which part shows."""
        return Heading(f"{self.title} {self.place.id}".strip(), (), self.sheet.position())

    def do(self, action: str) -> bool:
        """Move, also between columns, or open logs."""
        if action in {"left", "right"}:
            self.sheet.aside(-1 if action == "left" else 1)
            return True
        if action == "logs":
            place = self.logs()
            if place is not None:
                self.desk.go(place)
            return True
        return super().do(action)

    def logs(self) -> Place | None:
        """Return where the logs of what is shown are."""
        return None

    def gone(self, what: str) -> Sequence[PageLine]:
        """Return the page of something that is not there any more."""
        known = self.desk.fleet.listed
        words = f"there is no {what} {self.place.id}" if known else "asking the control plane …"
        return (PageLine(said((words, "dim"))),)


class OverviewView(PageView):
    """The fleet at a glance."""

    title = "Overview"

    def build(self, width: int, height: int) -> Sequence[PageLine]:
        """Return the overview."""
        if not self.desk.fleet.listed:
            words = self.desk.fleet.connection.words or "connecting"
            return (PageLine(said((f"asking the control plane … {words}", "dim"))),)
        return overview.page(self.desk.fleet.seen(), self.desk.when(), width, height)

    def concerns(self, changes: Changes) -> bool:
        """Everything does."""
        return bool(changes)

    def command(self) -> str:
        """Return the command that tells the state."""
        return "llmgw ctl status"

    def crumb(self) -> str:
        """The overview needs no name beside its own."""
        return ""

    def chosen(self) -> Chosen | None:
        """Return what the chosen spot is about."""
        place = self.sheet.target
        return Chosen(place.id) if place and place.id else None

    def logs(self) -> Place | None:
        """Return the logs' screen."""
        return Place(LOGS)


class NodeView(PageView):
    """One node, with its agent's log below where there is room."""

    own_keys = keys.NODE
    title = "Node"

    def __init__(self, desk: Desk, name: str) -> None:
        super().__init__(desk, name)
        self.log_lines = LogLines(desk.brush, title=LOG_TITLE, id="node-log")
        self._tail = Tail(desk, self.log_lines, self._dirty)
        self._charts = Charts(desk, self.sheet, self._past_came)
        self._choice = Choice()
        self._past_changed = False
        self._wants_log: bool | None = None
        self._in_log = False
        self._log_changed = False

    @property
    def body(self) -> Scrolled:
        """Return the page, or the log while keys go there."""
        return self.log_lines if self._in_log and self.log_lines.display else self.sheet

    def compose(self) -> ComposeResult:
        """Yield the page and the log."""
        yield self.sheet
        yield self.log_lines

    def build(self, width: int, height: int) -> Sequence[PageLine]:
        """Return the node's page."""
        seen = self.desk.fleet.node(self.place.id)
        if seen is None:
            return self.gone("node")
        past, choice = self._charts.seen(), self._choice
        return node.page(seen, self.desk.when(), width, height, past=past, choice=choice)

    def concerns(self, changes: Changes) -> bool:
        """Only this node's changes do."""
        return self.place.id in changes.nodes

    def enter(self, place: Place) -> None:
        """Show a node with its past, and follow its log if that shows."""
        if place.id:
            self._charts.open(place.id, self._choice.minutes)
        super().enter(place)
        self._place_log()

    def leave(self) -> None:
        """Stop following."""
        self._tail.stop()
        self._charts.close()

    def update(self, changes: Changes) -> None:
        """Take in changes of the node, its past when that came, and new lines of its log."""
        back = changes.connection and self.desk.fleet.connection.state == "live"
        if back or changes.everything:
            self._charts.again()
        if self.place.id in changes.nodes:
            self._charts.add(self.desk.fleet.samples.get(self.place.id))
        if self._past_changed:
            self._past_changed = False
            changes.nodes.add(self.place.id)
        super().update(changes)
        if back:
            self._tail.retry()
        if self._log_changed:
            self._log_changed = False
            self.log_lines.repaint()

    def on_resize(self) -> None:
        """Show or hide the log as there is room."""
        self._place_log()

    def idle(self) -> frozenset[str]:
        """Return the keys for other devices of a node that has at most one."""
        seen = self.desk.fleet.node(self.place.id)
        several = seen is not None and len(seen.hardware) > 1
        return frozenset() if several else frozenset({"device_next", "device_before"})

    def do(self, action: str) -> bool:
        """Choose what the charts show, show or hide the log, or move."""
        if action in _CHART_ACTIONS:
            self._choose(action)
            return True
        if action == "tail":
            self._wants_log = not self.log_lines.display
            self._place_log()
            return True
        if action == "pane":
            self._in_log = not self._in_log and self.log_lines.display
            self.log_lines.title = f"{'▸ ' if self._in_log else ''}{LOG_TITLE}"
            self.log_lines.repaint()
            return True
        return super().do(action)

    def logs(self) -> Place | None:
        """Return the agent's log."""
        return Place(LOGS, self.place.id)

    def command(self) -> str:
        """Return the command that shows the node."""
        return f"llmgw ctl node {quote(self.place.id)}"

    def chosen(self) -> Chosen | None:
        """Return the node."""
        fleet, name = self.desk.fleet, self.place.id
        records: tuple[Record | None, ...] = (fleet.nodes.get(name), fleet.samples.get(name))
        return Chosen(name, tuple(record for record in records if record is not None))

    def _place_log(self) -> None:
        """Follow the log exactly while it shows."""
        wanted = self._wants_log
        if wanted is None:
            wanted = self.size.height >= ROOM_FOR_LOG
        self.log_lines.display = wanted
        if not wanted or not self.display or not self.place.id:
            self._tail.stop()
        else:
            self._tail.start(self.place.id, None)

    def _choose(self, action: str) -> None:
        """Let the charts show something else, and let them be seen."""
        seen = self.desk.fleet.node(self.place.id)
        if seen is None:
            return
        columns = trends.columns_of(self.sheet.inner_width(self.sheet.size.width))
        before = self._choice
        match action:
            case "series_next" | "series_before":
                step = 1 if action == "series_next" else -1
                self._choice = trends.other_series(seen, before, step, columns)
            case "device_next" | "device_before":
                step = 1 if action == "device_next" else -1
                self._choice = trends.other_device(seen, before, step, columns)
            case _:
                self._choice = trends.other_time(before)
                self._charts.open(self.place.id, self._choice.minutes)
        self.sheet.rebuild()
        self.sheet.show(node.charts_at(self.sheet.built))

    def _past_came(self) -> None:
        self._past_changed = True

    def _dirty(self) -> None:
        self._log_changed = True


class ReplicaView(PageView):
    """One replica."""

    title = "Replica"

    def build(self, width: int, height: int) -> Sequence[PageLine]:
        """Return the replica's page."""
        fleet = self.desk.fleet
        replica = fleet.replicas.get(self.place.id)
        if replica is None:
            return self.gone("replica")
        uses = fleet.uses((replica,))
        return details.replica_page(
            replica, fleet.nodes, uses, self.desk.when(), width=width, height=height
        )

    def concerns(self, changes: Changes) -> bool:
        """Only this replica's changes do."""
        return self.place.id in changes.replicas

    def logs(self) -> Place | None:
        """Return the log of its first shard."""
        replica = self.desk.fleet.replicas.get(self.place.id)
        if replica is None or not replica.shards:
            return None
        part = replica.shards[0]
        return Place(LOGS, part.node, f"{replica.id}/{part.rank}")

    def command(self) -> str:
        """Return the command that lists replicas."""
        return "llmgw ctl replicas -o wide"

    def chosen(self) -> Chosen | None:
        """Return the replica."""
        replica = self.desk.fleet.replicas.get(self.place.id)
        return Chosen(self.place.id, () if replica is None else (replica,))


class ModelView(PageView):
    """One model."""

    title = "Model"

    def build(self, width: int, height: int) -> Sequence[PageLine]:
        """Return the model's page."""
        seen = self.desk.fleet.model(self.place.id)
        if seen is None:
            return self.gone("model")
        return details.model_page(seen, self.desk.when(), width, height)

    def concerns(self, changes: Changes) -> bool:
        """Only this model's changes do."""
        return self.place.id in changes.models

    def logs(self) -> Place | None:
        """Return the log of its first replica's first shard."""
        seen = self.desk.fleet.model(self.place.id)
        for replica in seen.replicas if seen else ():
            for part in replica.shards:
                return Place(LOGS, part.node, f"{replica.id}/{part.rank}")
        return None

    def command(self) -> str:
        """Return the command that shows the model."""
        return f"llmgw ctl model show {quote(self.place.id)}"

    def chosen(self) -> Chosen | None:
        """Return the catalog entry."""
        entry = self.desk.fleet.models.get(self.place.id)
        return Chosen(self.place.id, () if entry is None else (entry,))
