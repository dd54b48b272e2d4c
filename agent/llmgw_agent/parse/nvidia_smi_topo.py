"""`nvidia-smi topo -m`: which cards are linked, where they sit, how far each adapter is.

Adapters are columns `NICn` with a legend, or (older) columns named after the adapter itself.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record
from llmgw_agent.parse.lines import lines_of
from llmgw_agent.parse.tool import Tool

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")
"""The header is underlined even when it goes into a pipe."""

_PLACES: Final = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_TAIL: Final = re.compile("|".join(_PLACES))
_GPU: Final = re.compile(r"GPU(\d{1,4})\Z")
_NIC: Final = re.compile(r"NIC\d+\Z")
_LEGEND: Final = re.compile(r"\s*(NIC\d+)\s*:\s*(\S+)\s*\Z")
_NVLINKS: Final = re.compile(r"NV(\d{1,3})\Z")
_DISTANCE: Final = re.compile(r"(?:NV\d{1,3}|[A-Z]{3,4})\Z")
_NUMA: Final = re.compile(r"\d{1,4}\Z")
_SELF: Final = "X"


class TopoPeer(Record, frozen=True, kw_only=True):
    """How a card reaches another one."""

    number: int
    distance: str
    """`NV18` over NVLinks, else PIX, PXB, PHB, NODE or SYS."""
    nvlinks: int = 0
    """Links between the two."""


class TopoAdapter(Record, frozen=True, kw_only=True):
    """How far a network adapter is."""

    column: str
    """What heads its column."""
    name: str | None = None
    """`mlx5_0`; None when the legend is missing."""
    distance: str


class TopoGpu(Record, frozen=True, kw_only=True):
    """One card's row."""

    number: int
    peers: tuple[TopoPeer, ...] = ()
    adapters: tuple[TopoAdapter, ...] = ()
    cpus: str | None = None
    """As the kernel writes lists: `0-51,104-155`."""
    numa_node: int | None = None


class TopoNic(Record, frozen=True, kw_only=True):
    """One adapter's row."""

    column: str
    name: str | None = None
    adapters: tuple[TopoAdapter, ...] = ()


class Topology(Record, frozen=True, kw_only=True):
    """The whole matrix."""

    gpus: tuple[TopoGpu, ...] = ()
    nics: tuple[TopoNic, ...] = ()


def read_topology(text: str) -> Topology:
    """Return the matrix; a row that is cut costs what it lacks.

    Raises:
        Unreadable: no line heads a matrix.
    """
    lines = iter(lines_of(_ESCAPES.sub("", text)))
    header = next((line for line in lines if _is_header(line)), None)
    if header is None:
        raise Unreadable(f"nvidia-smi topo: {' '.join(text.split())[:120]!r} is no matrix")
    columns, places = _columns(header)
    rows: list[tuple[str, Sequence[str]]] = []
    names: dict[str, str] = {}
    for line in lines:
        if legend := _LEGEND.match(line):
            names[legend[1]] = legend[2]
        elif (row := _row(line)) and row[0] in columns:
            rows.append(row)
    matrix = _Matrix(columns, places, names)
    return Topology(
        gpus=tuple(gpu for row in rows if (gpu := matrix.gpu(*row)) is not None),
        nics=tuple(matrix.nic(*row) for row in rows if not _GPU.match(row[0])),
    )


def _is_header(line: str) -> bool:
    first = line.split(maxsplit=1)
    return bool(first) and bool(_GPU.match(first[0])) and line[:1].isspace()


def _columns(header: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels of the matrix and of what follows; only the latter have blanks."""
    tail = _TAIL.search(header)
    matrix = header if tail is None else header[: tail.start()]
    return tuple(matrix.split()), tuple(_TAIL.findall(header))


def _row(line: str) -> tuple[str, Sequence[str]] | None:
    """Return label and cells: with tabs a cell may be empty, with blanks none is."""
    cells = [cell.strip() for cell in line.split("\t")] if "\t" in line else line.split()
    return (cells[0], cells[1:]) if cells and cells[0] else None


class _Matrix:
    """What the rows are read by."""

    def __init__(
        self, columns: tuple[str, ...], places: tuple[str, ...], names: Mapping[str, str]
    ) -> None:
        self._columns = columns
        self._places = places
        self._names = names

    def gpu(self, label: str, cells: Sequence[str]) -> TopoGpu | None:
        number = _GPU.match(label)
        if number is None:
            return None
        rest = cells[len(self._columns) :]
        # Cells that are missing can't be told from each other: then none of them is believed.
        places = dict(zip(self._places, rest, strict=False)) if self._all(rest) else {}
        cpus, numa = places.get("CPU Affinity", ""), places.get("NUMA Affinity", "")
        return TopoGpu(
            number=int(number[1]),
            peers=tuple(self._peers(cells)),
            adapters=tuple(self._adapters(cells)),
            cpus=cpus if cpus[:1].isdigit() else None,
            numa_node=int(numa) if _NUMA.match(numa) else None,
        )

    def nic(self, label: str, cells: Sequence[str]) -> TopoNic:
        return TopoNic(column=label, name=self._name(label), adapters=tuple(self._adapters(cells)))

    def _all(self, rest: Sequence[str]) -> bool:
        return len(rest) >= len(self._places)

    def _name(self, column: str) -> str | None:
        return self._names.get(column) if _NIC.match(column) else column

    def _peers(self, cells: Sequence[str]) -> Iterator[TopoPeer]:
        for column, cell in self._distances(cells):
            if gpu := _GPU.match(column):
                links = _NVLINKS.match(cell)
                yield TopoPeer(
                    number=int(gpu[1]), distance=cell, nvlinks=int(links[1]) if links else 0
                )

    def _adapters(self, cells: Sequence[str]) -> Iterator[TopoAdapter]:
        for column, cell in self._distances(cells):
            if not _GPU.match(column):
                yield TopoAdapter(column=column, name=self._name(column), distance=cell)

    def _distances(self, cells: Sequence[str]) -> Iterator[tuple[str, str]]:
        for column, cell in zip(self._columns, cells, strict=False):
            if cell != _SELF and _DISTANCE.match(cell):
                yield column, cell


TOOLS = (Tool("nvidia-smi-topo", "nvidia-smi topo -m", read_topology),)
