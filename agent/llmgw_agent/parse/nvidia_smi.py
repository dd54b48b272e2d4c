"""`nvidia-smi --query-… --format=csv`: cards, the processes on them, and what it says instead."""

import math
import re
from collections.abc import Mapping, Sequence

import msgspec

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.cards import Card, CardProcess, CardsSeen

CARD_FIELDS = (
    *("index", "uuid", "name", "pci.bus_id", "memory.total", "memory.used", "utilization.gpu"),
    *("utilization.memory", "temperature.gpu", "power.draw", "power.limit", "clocks.sm"),
    *("fan.speed", "driver_version"),
)
"""Fields that every driver of this century's second half knows."""

NEWER_FIELDS = (
    *("mig.mode.current", "ecc.errors.corrected.volatile.total"),
    *("ecc.errors.uncorrected.volatile.total", "clocks_throttle_reasons.active", "compute_cap"),
)
"""Asked for after the others, and left out when a driver refuses one of them."""

APP_FIELDS = ("gpu_uuid", "pid", "used_memory", "process_name")

_MIB = 1 << 20
_NOT_THERE = ("[N/A]", "N/A", "[Not Supported]", "Not Supported", "Not Found")
_HEADER_NAMES = {
    "clocks.current.sm": "clocks.sm",
    "used_gpu_memory": "used_memory",
    "gpu_bus_id": "pci.bus_id",
    "gpu_name": "name",
}
"""How a column is headed where that differs from how it is asked for."""

_NUMBER = re.compile(r"^-?\d{1,18}(?:\.\d{1,18})?")
_ADDRESS = re.compile(r"GPU ((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9])")
_UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field to query')

_DRIVER_WORDS = (
    (
        "Driver/library version mismatch",
        "the NVIDIA driver was updated while the old one is loaded: reboot the machine",
    ),
    (
        "couldn't communicate with the NVIDIA driver",
        "nvidia-smi is there but its driver is not loaded: load or install the NVIDIA driver",
    ),
)

Row = Mapping[str, str]


def read_rows(text: str, fields: Sequence[str]) -> tuple[Row, ...]:
    """Return one mapping a row, by field; a shorter row lacks its last fields.

    A header is understood where there is one, and may then name other columns than `fields`.
    """
    rows: list[Row] = []
    columns = tuple(fields)
    for line in text.splitlines():
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split(", ")]
        if not rows and _is_header(cells):
            columns = _columns(cells, columns)
            continue
        rows.append(dict(zip(columns, cells, strict=False)))
    return tuple(rows)


def _columns(header: Sequence[str], asked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fields of a header: those asked for, whatever a newer driver calls them."""
    named = tuple(_column(cell) for cell in header)
    return asked if len(named) == len(asked) and named[0] == asked[0] else named


def _column(cell: str) -> str:
    name = cell.partition(" [")[0].strip()
    return _HEADER_NAMES.get(name, name)


def _is_header(cells: Sequence[str]) -> bool:
    known = {*CARD_FIELDS, *NEWER_FIELDS, *APP_FIELDS}
    return any(_column(cell) in known for cell in cells)


def read_cards(text: str, fields: Sequence[str] = (*CARD_FIELDS, *NEWER_FIELDS)) -> CardsSeen:
    """Return the cards of a `--query-gpu` answer.

    Raises:
        Unreadable: no row names a card; the message quotes what was said instead.
    """
    rows = read_rows(text, fields)
    cards = tuple(_card(row) for row in rows if "uuid" in row or "name" in row or len(row) > 1)
    if not cards:
        raise Unreadable(f"nvidia-smi: no card in {text[:200]!r}")
    driver = next((row["driver_version"] for row in rows if _has(row, "driver_version")), None)
    return CardsSeen(cards=cards, driver=driver)


def _card(row: Row) -> Card:
    total = _mib(row, "memory.total")
    uuid = _text(row, "uuid")
    return Card(
        index=_whole(row, "index"),
        uuid=uuid,
        name=_text(row, "name"),
        pci_address=_text(row, "pci.bus_id"),
        memory_total=total,
        memory_used=_mib(row, "memory.used"),
        memory_of_its_own=_own_memory(row, total),
        busy=_number(row, "utilization.gpu"),
        bandwidth=_number(row, "utilization.memory"),
        temperature=_number(row, "temperature.gpu"),
        power=_number(row, "power.draw"),
        power_limit=_number(row, "power.limit"),
        sm_clock=_number(row, "clocks.sm"),
        fan=_number(row, "fan.speed"),
        mig=_switch(row, "mig.mode.current"),
        compute_capability=_text(row, "compute_cap"),
        throttle_bits=_bits(row, "clocks_throttle_reasons.active"),
        ecc_corrected=_whole(row, "ecc.errors.corrected.volatile.total"),
        ecc_uncorrected=_whole(row, "ecc.errors.uncorrected.volatile.total"),
        trouble=_row_trouble(row, uuid),
    )


def _own_memory(row: Row, total: int | None) -> bool | None:
    if total is not None:
        return True
    return False if row.get("memory.total") in _NOT_THERE else None


def _row_trouble(row: Row, uuid: str | None) -> str | None:
    """Return why a card can't be used: the driver names it but tells nothing of it."""
    asked = "uuid" in row
    said = next((cell for cell in row.values() if "error" in cell.lower() or "ERR!" in cell), None)
    if asked and uuid is None:
        return f"the driver does not tell the card's UUID: {said or row['uuid']}"
    if "lost" in " ".join(row.values()).lower():
        return "the card is lost: it fell off the bus, reboot the machine"
    return None


def read_processes(text: str) -> Mapping[str, tuple[CardProcess, ...]]:
    """Return the processes of a `--query-compute-apps` answer, by the card's UUID."""
    found: dict[str, list[CardProcess]] = {}
    for row in read_rows(text, APP_FIELDS):
        uuid, pid = _text(row, "gpu_uuid"), _whole(row, "pid")
        if uuid is None or pid is None:
            continue
        found.setdefault(uuid, []).append(
            CardProcess(
                pid=pid, name=_text(row, "process_name"), memory_bytes=_mib(row, "used_memory")
            )
        )
    return {uuid: tuple(processes) for uuid, processes in found.items()}


def with_processes(seen: CardsSeen, by_uuid: Mapping[str, tuple[CardProcess, ...]]) -> CardsSeen:
    """Return the cards with the processes on each; a card without any holds an empty list."""
    return msgspec.structs.replace(
        seen,
        cards=tuple(
            msgspec.structs.replace(card, processes=by_uuid.get(card.uuid or "", ()))
            for card in seen.cards
        ),
    )


def unknown_field(text: str) -> str | None:
    """Return the field that this driver does not know, when that is what it says."""
    match = _UNKNOWN_FIELD.search(text)
    return None if match is None else match[1]


def read_failure(text: str, rc: int) -> CardsSeen:
    """Return what nvidia-smi says where it lists no cards.

    Raises:
        Unreadable: nothing that is known; the message quotes it.
    """
    if "No devices were found" in text:
        return CardsSeen()
    for mark, words in _DRIVER_WORDS:
        if mark in text:
            return CardsSeen(warning=words)
    addresses = _ADDRESS.findall(text)
    if addresses:
        words = " ".join(text.split())[:200]
        return CardsSeen(
            cards=tuple(Card(pci_address=a, trouble=f"nvidia-smi: {words}") for a in addresses),
            warning=f"nvidia-smi reads no card while one is broken: {words}",
        )
    raise Unreadable(f"nvidia-smi: exit status {rc}: {' '.join(text.split())[:200]!r}")


def _has(row: Row, field: str) -> bool:
    return _text(row, field) is not None


def _text(row: Row, field: str) -> str | None:
    cell = row.get(field, "")
    if not cell or cell in _NOT_THERE or cell.startswith(("[", "ERR")) or "Error" in cell:
        return None
    return cell


def _number(row: Row, field: str) -> float | None:
    match = _NUMBER.match(row.get(field, ""))
    value = None if match is None else float(match[0])
    return value if value is not None and math.isfinite(value) else None


def _whole(row: Row, field: str) -> int | None:
    value = _number(row, field)
    return None if value is None else int(value)


def _mib(row: Row, field: str) -> int | None:
    value = _number(row, field)
    return None if value is None else int(value * _MIB)


def _bits(row: Row, field: str) -> int | None:
    cell = row.get(field, "")
    try:
        return int(cell, 16) if cell.startswith("0x") and len(cell) <= 18 else None
    except ValueError:
        return None


def _switch(row: Row, field: str) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(row.get(field, ""))
