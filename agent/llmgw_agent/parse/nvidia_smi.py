"""`nvidia-smi --query-… --format=csv`: cards, the processes on them, and which fields there are."""

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from llmgw.base.errors import Unreadable
from llmgw.model.device import NvlinkFabric, PciLink
from llmgw_agent.parse import nvidia_smi_table, smi_values
from llmgw_agent.parse.cards import (
    LOST,
    RESET_REQUIRED,
    Card,
    CardProcess,
    CardsSeen,
)
from llmgw_agent.parse.lines import lines_of
from llmgw_agent.parse.nvidia_smi_errors import lost_cards, read_failure
from llmgw_agent.parse.pci import pci_key
from llmgw_agent.parse.tool import Tool

CARD_FIELDS = (
    *("index", "uuid", "name", "pci.bus_id", "memory.total", "memory.used", "utilization.gpu"),
    *("utilization.memory", "temperature.gpu", "power.draw", "enforced.power.limit", "clocks.sm"),
    *("fan.speed", "driver_version"),
)
"""Fields that every driver of this century's second half knows."""

NEWER_FIELDS = (
    *("temperature.memory", "mig.mode.current", "ecc.errors.corrected.volatile.total"),
    *("ecc.errors.uncorrected.volatile.total", "clocks_throttle_reasons.active", "compute_cap"),
)
"""Asked for after the others, and left out when a driver refuses one of them."""

USE_FIELDS = ("index", "uuid", "memory.total", "memory.used", "mig.mode.current")
APP_FIELDS = ("gpu_uuid", "pid", "used_memory")
"""Of processes: no name, which whoever starts one chooses, with line ends and commas in it."""

APP_NAME_FIELDS = ("pid", "process_name")

LINK_FIELDS = (
    *("index", "uuid", "pcie.link.gen.max", "pcie.link.width.current", "pcie.link.width.max"),
    *("pcie.link.gen.gpumax", "pcie.link.gen.hostmax"),
)
"""Older drivers do not know the last two."""

INSTEAD = {"clocks_throttle_reasons.active": "clocks_event_reasons.active"}
"""What newer drivers call a field."""

_HEADER_NAMES = {
    "clocks.current.sm": "clocks.sm",
    "clocks_event_reasons.active": "clocks_throttle_reasons.active",
    "fabric.cliqueId": "fabric.clique_id",
    "fabric.clusterUuid": "fabric.cluster_uuid",
    "gpu_bus_id": "pci.bus_id",
    "gpu_name": "name",
    "used_gpu_memory": "used_memory",
}
"""How a column is headed where that differs from how it is asked for, or from driver to driver."""

_KNOWN = frozenset(
    (*CARD_FIELDS, *NEWER_FIELDS, *USE_FIELDS, *APP_FIELDS, *APP_NAME_FIELDS, *LINK_FIELDS)
) | {
    *("fabric.clique_id", "fabric.cluster_uuid", "fabric.state", "fabric.status"),
}
_IDENTITY = ("index", "uuid", "pci.bus_id")
_MEASURED = ("memory.total", "utilization.gpu", "temperature.gpu", "power.draw")
_FIELD_NAME = re.compile(r'"([a-zA-Z_]+(?:\.[a-zA-Z0-9_]+)*)"', re.ASCII)

Row = Mapping[str, str]


def has_header(text: str) -> bool:
    """Say whether a text names columns: then it is a table, whatever else was said."""
    return any(line and _is_header(line) for line in lines_of(text))


def _rows(text: str, fields: Sequence[str]) -> tuple[tuple[Row, ...], bool]:
    """Return one mapping a row, by field, and whether the last line ends in the middle of one.

    A header is understood where there is one, and may then name other columns than `fields`. A
    shorter row lacks its last fields. Lines of one cell are no rows, nor is a last one that is cut.
    """
    rows: list[Row] = []
    columns = tuple(map(_column, fields))
    lines = lines_of(text)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if not rows and _is_header(line):
            columns = _columns(line, columns)
            continue
        cells = [cell.strip() for cell in line.split(", ", len(columns) - 1)]
        if number == len(lines) and len(cells) < len(columns) and not text.endswith("\n"):
            return tuple(rows), True
        if len(cells) > 1:
            rows.append(dict(zip(columns, cells, strict=False)))
    return tuple(rows), False


def _columns(line: str, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fields of a header: those asked for, whatever a newer driver calls them."""
    named = tuple(_column(cell) for cell in line.split(", "))
    return asked if len(named) == len(asked) and named[0] == asked[0] else named


def _column(cell: str) -> str:
    name = cell.partition(" [")[0].strip()
    return _HEADER_NAMES.get(name, name)


def _is_header(line: str) -> bool:
    return any(_column(cell) in _KNOWN for cell in line.split(", "))


def read_cards(text: str, fields: Sequence[str] = (*CARD_FIELDS, *NEWER_FIELDS)) -> CardsSeen:
    """Return the cards of a `--query-gpu` answer, and those that it says can't be reached.

    Raises:
        Unreadable: no row names a card; the message quotes what was said instead.
    """
    rows, cut = _rows(text, fields)
    cards = (*(_card(row) for row in rows if _is_card(row)), *lost_cards(text))
    if not cards:
        raise Unreadable(f"nvidia-smi: no card in {text[:200]!r}")
    return CardsSeen(cards=cards, driver=_driver(rows), cut=cut)


def _is_card(row: Row) -> bool:
    """Say whether a row is a card's: what tells cards apart is there, if it was asked for."""
    asked = [field for field in _IDENTITY if field in row]
    index, uuid, address = (row.get(field, "") for field in _IDENTITY)
    told = (smi_values.index(index), smi_values.card_uuid(uuid), pci_key(address))
    return not asked or any(value is not None for value in told)


def _driver(rows: Sequence[Row]) -> str | None:
    versions = (smi_values.words(row.get("driver_version", "")) for row in rows)
    return next((version for version in versions if version is not None), None)


def _card(row: Row) -> Card:
    def at(field: str) -> str:
        return row.get(field, "")

    total = smi_values.mib(at("memory.total"))
    uuid = smi_values.card_uuid(at("uuid"))
    return Card(
        index=smi_values.index(at("index")),
        uuid=uuid,
        name=smi_values.words(at("name")),
        pci_address=at("pci.bus_id") if pci_key(at("pci.bus_id")) else None,
        memory_total=total,
        memory_used=smi_values.mib(at("memory.used")),
        memory_of_its_own=_own_memory(row, total),
        busy=smi_values.percent(at("utilization.gpu")),
        bandwidth=smi_values.percent(at("utilization.memory")),
        temperature=smi_values.celsius(at("temperature.gpu")),
        memory_temperature=smi_values.celsius(at("temperature.memory")),
        power=smi_values.watts(at("power.draw")),
        power_limit=smi_values.watts(at("enforced.power.limit")),
        sm_clock=smi_values.megahertz(at("clocks.sm")),
        fan=smi_values.fan(at("fan.speed")),
        mig=smi_values.switch(at("mig.mode.current")),
        compute_capability=smi_values.words(at("compute_cap")),
        throttle_bits=_bits(at("clocks_throttle_reasons.active")),
        ecc_corrected=smi_values.whole(at("ecc.errors.corrected.volatile.total")),
        ecc_uncorrected=smi_values.whole(at("ecc.errors.uncorrected.volatile.total")),
        pci=_link(row),
        slot_generation=smi_values.whole(at("pcie.link.gen.hostmax")),
        fabric=_fabric(row),
        trouble=_row_trouble(row, uuid),
    )


def _own_memory(row: Row, total: int | None) -> bool | None:
    if total is not None:
        return True
    return False if smi_values.not_there(row.get("memory.total", "")) else None


def _link(row: Row) -> PciLink | None:
    link = PciLink(
        max_generation=smi_values.whole(row.get("pcie.link.gen.max", "")),
        card_generation=smi_values.whole(row.get("pcie.link.gen.gpumax", "")),
        lanes=smi_values.whole(row.get("pcie.link.width.current", "")),
        max_lanes=smi_values.whole(row.get("pcie.link.width.max", "")),
    )
    return None if link == PciLink() else link


def _fabric(row: Row) -> NvlinkFabric | None:
    fabric = NvlinkFabric(
        state=smi_values.words(row.get("fabric.state", "")),
        status=smi_values.words(row.get("fabric.status", "")),
        cluster_uuid=smi_values.words(row.get("fabric.cluster_uuid", "")),
        clique_id=smi_values.whole(row.get("fabric.clique_id", "")),
    )
    return None if fabric == NvlinkFabric() else fabric


def _row_trouble(row: Row, uuid: str | None) -> str | None:
    """Return why a card can't be used: the driver names it but tells nothing of it."""
    said = next((cell for cell in row.values() if smi_values.failed(cell)), None)
    if "uuid" in row and uuid is None:
        return f"the driver does not tell the card's UUID: {said or row['uuid']}"
    whole = " ".join(row.values()).lower()
    if "gpu is lost" in whole:
        return LOST
    if "requires reset" in whole:
        return RESET_REQUIRED
    measured = [row[field] for field in _MEASURED if field in row]
    if measured and all(map(smi_values.failed, measured)):
        return f"the driver answers nothing for the card: {said}"
    return None


def read_processes(text: str) -> Mapping[str, tuple[CardProcess, ...]]:
    """Return the processes of a `--query-compute-apps` answer, by the UUID of card or instance.

    Raises:
        Unreadable: it ends in the middle of a row, so that nobody knows who else is there.
    """
    found: dict[str, list[CardProcess]] = {}
    rows, cut = _rows(text, APP_FIELDS)
    if cut:
        raise Unreadable(f"nvidia-smi: processes end in the middle of a row: {text[-100:]!r}")
    for row in rows:
        uuid = smi_values.words(row.get("gpu_uuid", ""))
        pid = smi_values.pid(row.get("pid", ""))
        if uuid is None or pid is None:
            continue
        found.setdefault(uuid, []).append(
            CardProcess(
                pid=pid,
                name=smi_values.words(row.get("process_name", "")),
                memory_bytes=smi_values.mib(row.get("used_memory", "")),
                kind="C",
            )
        )
    return {uuid: tuple(processes) for uuid, processes in found.items()}


def read_names(text: str) -> Mapping[int, str]:
    """Return names of processes by pid: for people alone, since a name can pass for another row.

    The first one that a process is given counts.
    """
    rows, _ = _rows(text, APP_NAME_FIELDS)
    found: dict[int, str] = {}
    for row in rows:
        pid = smi_values.pid(row.get("pid", ""))
        name = smi_values.words(row.get("process_name", ""))
        if pid is not None and name is not None:
            found.setdefault(pid, name)
    return found


def with_processes(seen: CardsSeen, by_uuid: Mapping[str, tuple[CardProcess, ...]]) -> CardsSeen:
    """Return the cards with the processes on each; a card without any holds an empty list."""
    return msgspec.structs.replace(
        seen,
        cards=tuple(
            msgspec.structs.replace(card, processes=by_uuid.get(card.uuid or "", ()))
            for card in seen.cards
        ),
    )


def _bits(cell: str) -> int | None:
    try:
        return int(cell, 16) if cell.startswith("0x") and len(cell) <= 18 else None
    except ValueError:
        return None


def read_fields(text: str) -> frozenset[str]:
    """Return the names of `--help-query-gpu`, every name of a field that has two.

    Raises:
        Unreadable: there is none.
    """
    found = frozenset(_field_names(text))
    if not found:
        raise Unreadable(f"nvidia-smi --help-query-gpu: no field in {text[:200]!r}")
    return found


def _field_names(text: str) -> Iterator[str]:
    for line in lines_of(text):
        if line.startswith('"') and line.rstrip().endswith('"'):
            yield from _FIELD_NAME.findall(line)


def read_file(text: str) -> CardsSeen:
    """Return the cards of an answer of which only the text is there.

    Raises:
        Unreadable: it names no columns, or no card.
    """
    if not has_header(text):
        hint = "print it without `noheader`, or say which they are"
        raise Unreadable(f"no names of columns ({hint}): {text[:200]!r}")
    return read_cards(text)


def read_said(text: str) -> CardsSeen | nvidia_smi_table.Table:
    """Return what nvidia-smi printed without being asked for anything: its table, or what failed.

    Raises:
        Unreadable: neither.
    """
    return nvidia_smi_table.read_table(text) if "|" in text else read_failure(text)


_CSV = (
    "nvidia-smi --format=csv --query-gpu=index,uuid,name,pci.bus_id,driver_version,"
    "memory.total,memory.used,utilization.gpu,temperature.gpu,power.draw"
)

TOOLS = (
    Tool("nvidia-smi-csv", _CSV, read_file, read_cards),
    Tool("nvidia-smi-errors", "nvidia-smi", read_said),
    Tool("nvidia-smi-help", "nvidia-smi --help-query-gpu", lambda s: tuple(sorted(read_fields(s)))),
)
