"""What happened: events, and what happened to ports and devices, both bounded."""

from collections.abc import Iterable, Sequence

from llmgw.model.events import Event
from llmgw.model.hardware import HardwareChange
from llmgw.store.rules.bounds import EVENTS, HARDWARE, SUBJECTS
from llmgw.store.values.rows import newest


class EventRows:
    """The newest events, in the order in which they came."""

    def __init__(self) -> None:
        self._rows: dict[str, Event] = {}

    def add(self, event: Event) -> None:
        """Keep an event; one of the same id is kept once."""
        self._rows.setdefault(event.id, event)
        while len(self._rows) > EVENTS:
            del self._rows[next(iter(self._rows))]

    def since(self, at: float, limit: int) -> tuple[Event, ...]:
        """Return the newest events at or after a time, oldest first."""
        found = [event for event in self._rows.values() if event.at >= at]
        return tuple(reversed(newest(found, limit)))


class HardwareRows:
    """Changes by node and id."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, HardwareChange]] = {}

    def put(self, changes: Sequence[HardwareChange], before: float) -> None:
        """Keep changes, or replace those of the same id, and drop what is old of their nodes."""
        for one in changes:
            self._nodes.setdefault(one.node, {})[one.id] = one
        for node in {one.node for one in changes}:
            self._nodes[node] = _bounded(self._nodes[node], before)

    def forget(self, node: str) -> None:
        """Drop what happened to a node's hardware."""
        self._nodes.pop(node, None)

    def ended_since(self, since: float, node: str | None) -> tuple[HardwareChange, ...]:
        """Return the changes that ended at or after a time, of one node or all, oldest first."""
        found = (one for one in self._every() if one.until >= since and node in {None, one.node})
        return tuple(sorted(found, key=lambda one: one.id))

    def last(self) -> tuple[HardwareChange, ...]:
        """Return the last change of each subject, by node."""
        return tuple(
            rows[one]
            for _, rows in sorted(self._nodes.items())
            for one in sorted(_last(rows.values()))
        )

    def _every(self) -> Iterable[HardwareChange]:
        for rows in self._nodes.values():
            yield from rows.values()


def _last(rows: Iterable[HardwareChange]) -> frozenset[str]:
    """Return the ids of the last change of each subject of one node."""
    found: dict[tuple[str, str], str] = {}
    for one in rows:
        subject = (one.kind, one.subject)
        found[subject] = max(found.get(subject, ""), one.id)
    return frozenset(found.values())


def _bounded(rows: dict[str, HardwareChange], before: float) -> dict[str, HardwareChange]:
    """Return of one node's changes those that are kept."""
    last = _last(rows.values())
    recent = frozenset(sorted(rows, reverse=True)[:HARDWARE])
    kept = [one for one in rows if one in last or (rows[one].until >= before and one in recent)]
    return {one: rows[one] for one in sorted(kept, reverse=True)[:SUBJECTS]}
