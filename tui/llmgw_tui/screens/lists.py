"""Screens that are one table: nodes, replicas, models."""

import math
from collections.abc import Iterable, Sequence

from textual.app import ComposeResult

from llmgw.model.node import READY
from llmgw.model.record import Record
from llmgw_tui import keys
from llmgw_tui.draw import models, nodes, replicas
from llmgw_tui.draw.places import LOGS, MODEL, MODELS, NODE, NODES, REPLICA, REPLICAS, Place
from llmgw_tui.draw.table import Column, Row
from llmgw_tui.draw.text import Pieces, said
from llmgw_tui.screens.desk import Desk
from llmgw_tui.screens.view import Chosen, Heading, View
from llmgw_tui.store.fleet import Changes
from llmgw_tui.store.query import Filter, arranged, read_filter
from llmgw_tui.widgets.grid import Grid
from llmgw_tui.widgets.scrolled import Scrolled

RESORT = 1.0
"""Seconds between two sortings: rows must not jump under a reader's eyes."""
REST = 1.5
"""Seconds without a movement before rows may change places."""


class ListView(View):
    """A table of one kind of record, filtered and sorted.

    The subclass says which ids there are, how a row is made and where it leads.
    """

    own_keys: tuple[keys.Key, ...] = keys.LIST
    title = ""
    columns: Sequence[Column] = ()
    first_sort = ""
    nothing = ""
    """What to say when there is nothing to list."""

    def __init__(self, desk: Desk, name: str) -> None:
        super().__init__(desk, name)
        self.grid = Grid(desk.brush, self.columns, self._sort_by)
        self.grid.sort = self.first_sort
        self._filter = Filter()
        self._rows: dict[str, Row] = {}
        self._shown: Sequence[Row] = ()
        self._pending = False
        self._sorted = self._moved = -math.inf

    def ids(self) -> Iterable[str]:
        """Return all ids."""
        raise NotImplementedError

    def row(self, row_id: str) -> Row | None:
        """Return an object's row; None when it is gone."""
        raise NotImplementedError

    def touched(self, changes: Changes) -> set[str]:
        """Return the ids whose rows may have changed."""
        raise NotImplementedError

    @property
    def body(self) -> Scrolled:
        """Return the table."""
        return self.grid

    def compose(self) -> ComposeResult:
        """Yield the table."""
        yield self.grid

    def enter(self, place: Place) -> None:
        """Show the list; a place's detail is a filter."""
        super().enter(place)
        if place.detail:
            self._filter = read_filter(place.detail)
        self._rebuild()
        if place.id:
            self.grid.put_cursor(place.id)

    def update(self, changes: Changes) -> None:
        """Make the changed rows anew; places change only when nobody is moving."""
        if changes.everything:
            self._rebuild()
            return
        changed = [row_id for row_id in self.touched(changes) if self._remake(row_id)]
        if changed:
            self._pending = True
        if self._pending and self._may_sort():
            self._arrange(changed)
        elif changed:
            self._keep_places(changed)

    def heading(self) -> Heading:
        """Return title, filter and counts."""
        notes: list[tuple[str, str]] = []
        if self._filter.text:
            notes.append((f"/{self._filter.text}", "key"))
        shown, there = len(self._shown), len(self._rows)
        count = self.grid.position()
        if shown != there:
            count = f"{count} shown, {there} in all" if count else f"none of {there}"
        return Heading(self.title, _spaced(notes), count)

    def chosen(self) -> Chosen | None:
        """Return the row under the cursor."""
        row = self.grid.row
        return None if row is None else Chosen(row.id, self.records(row.id))

    def records(self, row_id: str) -> tuple[Record, ...]:
        """Return the records behind a row, for copying as JSON."""
        raise NotImplementedError

    def crumb(self) -> str:
        """A list needs no name beside its own."""
        return ""

    def do(self, action: str) -> bool:
        """Filter, sort, or move."""
        own = {
            "filter": self._ask_filter,
            "sort": self._next_sort,
            "turn": lambda: self._sort_by(self.grid.sort),
            "logs": self._logs,
        }
        run = own.get(action)
        if run is not None:
            run()
            return True
        self._moved = self.desk.clock.monotonic()
        return super().do(action)

    def set_filter(self, text: str) -> str:
        """Filter by a text; return what is wrong with it."""
        self._filter = read_filter(text)
        self._arrange()
        self.desk.repaint_edges()
        return self._filter.problem

    def filtered(self) -> bool:
        """Say whether a filter is on."""
        return bool(self._filter.text)

    def clear_filter(self) -> bool:
        """Show everything again; say whether anything was left out."""
        if not self.filtered():
            return False
        self.set_filter("")
        return True

    def _ask_filter(self) -> None:
        before = self._filter.text
        self.desk.ask(
            "/",
            before,
            changed=self.set_filter,
            done=self.set_filter,
            cancelled=lambda: self.set_filter(before),
        )

    def _next_sort(self) -> None:
        order = [column.key for column in self.columns]
        at = order.index(self.grid.sort) if self.grid.sort in order else -1
        self._sort_by(order[(at + 1) % len(order)], turn=False)

    def _sort_by(self, key: str, *, turn: bool = True) -> None:
        """Sort by a column; by the same again: the other way round."""
        self.grid.down = not self.grid.down if turn and key == self.grid.sort else False
        self.grid.sort = key
        self._arrange()
        self.desk.repaint_edges()

    def _logs(self) -> None:
        place = self.logs()
        if place is not None:
            self.desk.go(place)

    def logs(self) -> Place | None:
        """Return where the logs of what is under the cursor are."""
        raise NotImplementedError

    def _remake(self, row_id: str) -> bool:
        """Make one row anew; say whether it differs."""
        row = self.row(row_id)
        if row == self._rows.get(row_id):
            return False
        if row is None:
            self._rows.pop(row_id, None)
        else:
            self._rows[row_id] = row
        return True

    def _rebuild(self) -> None:
        rows = ((row_id, self.row(row_id)) for row_id in self.ids())
        made = {row_id: row for row_id, row in rows if row is not None}
        same = {row_id: row for row_id, row in self._rows.items() if made.get(row_id) == row}
        self._rows = made | same
        self._arrange()

    def _may_sort(self) -> bool:
        now = self.desk.clock.monotonic()
        return now - self._sorted >= RESORT and now - self._moved >= REST

    def _arrange(self, changed: Iterable[str] | None = None) -> None:
        self._pending = False
        self._sorted = self.desk.clock.monotonic()
        grid = self.grid
        self._shown = arranged(self._rows.values(), self._filter, grid.sort, grid.down)
        self._show(changed)

    def _keep_places(self, changed: Iterable[str]) -> None:
        """Show changed rows where they stand; new ones come at the end until the next sorting."""
        known = [self._rows[row.id] for row in self._shown if row.id in self._rows]
        places = {row.id for row in known}
        new = [self._rows[one] for one in changed if one in self._rows and one not in places]
        self._shown = [*known, *(row for row in new if self._filter.keeps(row))]
        self._show(changed)

    def _show(self, changed: Iterable[str] | None) -> None:
        self.grid.empty = f"nothing fits /{self._filter.text}" if self._rows else self._nothing()
        touched = None if changed is None else [self._rows[i] for i in changed if i in self._rows]
        self.grid.show(self._shown, touched)

    def _nothing(self) -> str:
        return self.nothing if self.desk.fleet.listed else "asking the control plane …"


def _spaced(notes: Iterable[tuple[str, str]]) -> Pieces:
    return said(*((f"{text} ", role) for text, role in notes))


class NodesView(ListView):
    """All nodes."""

    title = "Nodes"
    columns = nodes.COLUMNS
    first_sort = "node"
    nothing = "no node yet: `llmgw ctl node token NODE`, then `llmgw agent --join …` there"

    def ids(self) -> Iterable[str]:
        """Return the nodes' ids."""
        return self.desk.fleet.nodes

    def row(self, row_id: str) -> Row | None:
        """Return a node's row."""
        seen = self.desk.fleet.node(row_id)
        return None if seen is None else nodes.row(seen, self.desk.when())

    def touched(self, changes: Changes) -> set[str]:
        """Return changed nodes, and each minute those that show an age."""
        if not changes.minute:
            return changes.nodes
        known = self.desk.fleet.nodes.items()
        return changes.nodes | {node_id for node_id, node in known if node.liveness != READY}

    def records(self, row_id: str) -> tuple[Record, ...]:
        """Return a node and its last heartbeat."""
        fleet = self.desk.fleet
        return tuple(r for r in (fleet.nodes.get(row_id), fleet.samples.get(row_id)) if r)

    def target(self) -> Place | None:
        """Return the node's page."""
        return Place(NODE, self.grid.cursor) if self.grid.cursor else None

    def logs(self) -> Place | None:
        """Return the agent's log."""
        return Place(LOGS, self.grid.cursor) if self.grid.cursor else None

    def command(self) -> str:
        """Return the command that lists nodes."""
        return "llmgw ctl nodes"


class ReplicasView(ListView):
    """All replicas."""

    title = "Replicas"
    columns = replicas.COLUMNS
    first_sort = "replica"
    nothing = "no replica: nothing in the catalog is wanted, or nothing could be placed"

    def ids(self) -> Iterable[str]:
        """Return the replicas' ids."""
        return self.desk.fleet.replicas

    def row(self, row_id: str) -> Row | None:
        """Return a replica's row."""
        fleet = self.desk.fleet
        replica = fleet.replicas.get(row_id)
        if replica is None:
            return None
        return replicas.row(replica, fleet.nodes, fleet.uses((replica,)), self.desk.when())

    def touched(self, changes: Changes) -> set[str]:
        """Return changed replicas; each minute all of them: they show ages."""
        return set(self.desk.fleet.replicas) if changes.minute else changes.replicas

    def records(self, row_id: str) -> tuple[Record, ...]:
        """Return the replica."""
        replica = self.desk.fleet.replicas.get(row_id)
        return () if replica is None else (replica,)

    def target(self) -> Place | None:
        """Return the replica's page."""
        return Place(REPLICA, self.grid.cursor) if self.grid.cursor else None

    def logs(self) -> Place | None:
        """Return the log of the replica's first shard."""
        replica = self.desk.fleet.replicas.get(self.grid.cursor or "")
        if replica is None or not replica.shards:
            return None
        part = replica.shards[0]
        return Place(LOGS, part.node, f"{replica.id}/{part.rank}")

    def command(self) -> str:
        """Return the command that lists replicas."""
        return "llmgw ctl replicas"


class ModelsView(ListView):
    """All models of the catalog."""

    title = "Models"
    columns = models.COLUMNS
    first_sort = "model"
    nothing = "the catalog is empty: `llmgw ctl model add FILE` adds a model"

    def ids(self) -> Iterable[str]:
        """Return the models' names."""
        return self.desk.fleet.models

    def row(self, row_id: str) -> Row | None:
        """Return a model's row."""
        seen = self.desk.fleet.model(row_id)
        return None if seen is None else models.row(seen, self.desk.when())

    def touched(self, changes: Changes) -> set[str]:
        """Return changed models; each minute all of them: they show ages."""
        return set(self.desk.fleet.models) if changes.minute else changes.models

    def records(self, row_id: str) -> tuple[Record, ...]:
        """Return the catalog entry."""
        entry = self.desk.fleet.models.get(row_id)
        return () if entry is None else (entry,)

    def target(self) -> Place | None:
        """Return the model's page."""
        return Place(MODEL, self.grid.cursor) if self.grid.cursor else None

    def logs(self) -> Place | None:
        """Return the log of the first replica's first shard."""
        seen = self.desk.fleet.model(self.grid.cursor or "")
        for replica in seen.replicas if seen else ():
            for part in replica.shards:
                return Place(LOGS, part.node, f"{replica.id}/{part.rank}")
        return None

    def command(self) -> str:
        """Return the command that lists models."""
        return "llmgw ctl models"


LISTS: dict[str, type[ListView]] = {NODES: NodesView, REPLICAS: ReplicasView, MODELS: ModelsView}
