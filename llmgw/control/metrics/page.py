"""One scrape in the making: bit by bit, so that the loop is never held for long. Pure.

Prometheus wants a family's samples together, and the work lies in nodes: each node is read by
every family in turn, its lines are put beside those of the other nodes, and in the end the
families follow each other.
"""

from collections.abc import Callable, Iterator, Sequence

from llmgw.control.metrics.family import ALL as BY_ALL
from llmgw.control.metrics.family import (
    SETTLED,
    Family,
    Figures,
    FleetFamily,
    NodeFamily,
    Samples,
)
from llmgw.control.metrics.onenode import OneNode
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.control.metrics.tally import Tally
from llmgw.control.metrics.text import head, histogram_lines, number
from llmgw.model.gateway import Histogram

PIECE = 1 << 17
"""Bytes, about, of a piece of the text."""

Reader = tuple[str, Callable[[OneNode], Figures], list[str]]
"""How a family's samples begin, what reads them, and where its lines go."""


class Page:
    """The text of one snapshot.

    Args:
        seen: the snapshot.
        families: what is exported, in the order of the text.

    Attributes:
        pieces: the text, once `steps` has come to its end.
    """

    def __init__(self, seen: Snapshot, families: Sequence[Family]) -> None:
        self._seen = seen
        self._families = tuple(one for one in families if _told(one, seen))
        self.pieces: list[bytes] = []

    def steps(self) -> Iterator[None]:
        """Do the work; between two steps somebody else may have a turn.

        A step is one node, or so much of a family as makes a piece.
        """
        seen, tally = self._seen, Tally()
        lines: dict[str, list[str]] = {family.name: [] for family in self._families}
        readers = [
            (f"{family.name}{{", family.read, lines[family.name])
            for family in self._families
            if isinstance(family, NodeFamily)
        ]
        for room in seen.rooms if seen.leader else ():
            name = room.node.id
            flaps = seen.flaps.get(name)
            node = OneNode(room, seen.samples.get(name), seen.now, seen.models_of, flaps)
            tally.add(node)
            _read(node, readers)
            yield
        for family in self._families:
            found = lines.pop(family.name)
            if isinstance(family, FleetFamily):
                found = _lines(family, family.read(seen, tally))
            yield from self._end(family, found)

    def _end(self, family: Family, found: list[str]) -> Iterator[None]:
        """Put a family's lines behind those of the others, in pieces that are soon sent."""
        waiting, size = [head(family.name, family.kind, family.help)], 0
        for text in found:
            waiting.append(text)
            size += len(text)
            if size >= PIECE:
                self.pieces.append("".join(waiting).encode())
                waiting, size = [], 0
                yield
        if size:
            self.pieces.append("".join(waiting).encode())
            yield


def _read(node: OneNode, readers: Sequence[Reader]) -> None:
    """Add to each family's lines what it tells of a node: one text for each."""
    for begin, read, found in readers:
        text = "".join(
            [
                # Most are whole numbers, and this is done a hundred thousand times a scrape.
                f"{begin}{labels}}} {value if type(value) is int else number(value)}\n"
                for labels, value in read(node)
                if value is not None
            ]
        )
        if text:
            found.append(text)


def _told(family: Family, seen: Snapshot) -> bool:
    if family.by == BY_ALL:
        return True
    return seen.leader and (seen.settled or family.by != SETTLED)


def _lines(family: Family, samples: Samples) -> list[str]:
    """Return a family's lines; of two samples with the same labels the first stays."""
    told: dict[str, str] = {}
    for labels, value in samples:
        if value is None or labels in told:
            continue
        if isinstance(value, Histogram):
            told[labels] = histogram_lines(family.name, labels, value)
        else:
            braces = f"{{{labels}}}" if labels else ""
            told[labels] = f"{family.name}{braces} {number(value)}\n"
    return list(told.values())
