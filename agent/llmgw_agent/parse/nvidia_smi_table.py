"""nvidia-smi without arguments: the table for people, which truncates names and rounds watts."""

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record
from llmgw_agent.parse import smi_values
from llmgw_agent.parse.cards import Card, CardProcess, Instance
from llmgw_agent.parse.lines import lines_of
from llmgw_agent.parse.nvidia_smi_errors import lost_cards
from llmgw_agent.parse.tool import Tool

_DRIVER = re.compile(r"(?:Driver|KMD) Version: *([0-9.]+)", re.ASCII)
_CUDA = re.compile(r"CUDA (?:UMD )?Version: *([0-9.]+)", re.ASCII)

_NAME = re.compile(r" {1,3}(\d{1,3})  (\S.{0,60}?) +(?:On|Off|N/A) *\Z", re.ASCII)
_BUS = re.compile(r" *([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]) ", re.ASCII)
_HEAT = re.compile(r" *(\S+) +(\S+) +(?:P\d+|N/A|ERR!) +(\S+) */ *(\S+) *\Z", re.ASCII)
_MEMORY = re.compile(r" *(\d+MiB) */ *(\d+MiB) *\Z", re.ASCII)
_INSTANCE = re.compile(r" *(\d{1,3}) +(\d{1,3}) +(\d{1,3}) +(\d{1,3}) *\Z", re.ASCII)
_MULTIPROCESSORS = re.compile(r" *(\d{1,4}) ", re.ASCII)
_PROCESS = re.compile(
    r" +(?P<gpu>\d{1,3}) +(?:(?P<gi>\d{1,3}|N/A) +(?P<ci>\d{1,3}|N/A) +)?(?P<pid>\d{1,10}) +"
    r"(?P<kind>[CGM+]{1,3}) +(?P<name>\S.{0,100}?) +(?P<memory>\d{1,12}MiB|N/A) *\Z",
    re.ASCII,
)

Place = tuple[int | None, ...]
"""A card's number, or with the ids of GPU instance and compute instance behind it."""


class Table(Record, frozen=True, kw_only=True):
    """Everything that the table says. A long name ends in `...`, as it is printed."""

    cards: tuple[Card, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    carved: int | None = None
    """How many MIG instances its MIG section lists; None: it has no such section."""


def read_table(text: str) -> Table:
    """Return the table, or a part of it.

    A cell that can't be read costs itself.

    Raises:
        Unreadable: there is no card and no section in it.
    """
    lines = [line.split("|") for line in lines_of(text) if line.startswith("|")]
    rows = [cells[1:-1] for cells in lines]
    processes = _by_place(rows) if "Processes:" in text else None
    instances = dict(_instances(rows)) if "MIG devices:" in text else None
    cards = (*_cards(rows), *lost_cards(text))
    if not cards and processes is None and instances is None:
        raise Unreadable(f"nvidia-smi: no card in {text[:200]!r}")
    return Table(
        cards=tuple(_whole(card, instances, processes) for card in cards),
        driver=_first(_DRIVER, text),
        cuda=_first(_CUDA, text),
        carved=None if instances is None else len(instances),
    )


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else match[1]


def _cards(rows: Sequence[Sequence[str]]) -> Iterator[Card]:
    """Yield a card for each row that names one; two more rows below tell of it."""
    for place, row in enumerate(rows):
        name, bus = (_NAME.match(row[0]), _BUS.match(row[1])) if len(row) == 3 else (None, None)
        if name is None or bus is None:
            continue
        below = [one if len(one) == 3 else ["", "", ""] for one in rows[place + 1 : place + 3]]
        second, third = (*below, ["", "", ""], ["", "", ""])[:2]
        yield _card(int(name[1]), name[2], bus[1], row[2], second, third)


def _card(
    index: int, name: str, address: str, ecc: str, second: Sequence[str], third: Sequence[str]
) -> Card:
    heat, memory = _HEAT.match(second[0]), _MEMORY.match(second[1])
    fan, celsius, draw, limit = ("", "", "", "") if heat is None else heat.groups()
    used, total = ("", "") if memory is None else memory.groups()
    own = None if memory is None else True
    return Card(
        index=index,
        name=name,
        pci_address=address,
        memory_total=smi_values.mib(total),
        memory_used=smi_values.mib(used),
        memory_of_its_own=False if smi_values.not_there(second[1]) else own,
        busy=smi_values.percent(second[2].split("%")[0]) if "%" in second[2] else None,
        temperature=smi_values.celsius(celsius),
        power=smi_values.watts(draw),
        power_limit=smi_values.watts(limit),
        fan=smi_values.fan(fan),
        mig=smi_values.switch(third[2]),
        ecc_uncorrected=smi_values.whole(ecc),
    )


def _instances(rows: Sequence[Sequence[str]]) -> Iterator[tuple[Place, Instance]]:
    for row in rows:
        ids = _INSTANCE.match(row[0]) if len(row) == 4 else None
        if ids is None:
            continue
        card, gpu, compute, index = map(int, ids.groups())
        memory, sms = _MEMORY.match(row[1]), _MULTIPROCESSORS.match(row[2])
        yield (
            (card, gpu, compute),
            Instance(
                index=index,
                gpu_instance=gpu,
                compute_instance=compute,
                multiprocessors=None if sms is None else int(sms[1]),
                memory_total=None if memory is None else smi_values.mib(memory[2]),
                memory_used=None if memory is None else smi_values.mib(memory[1]),
            ),
        )


def _by_place(rows: Sequence[Sequence[str]]) -> Mapping[Place, Sequence[CardProcess]]:
    found: dict[Place, list[CardProcess]] = {}
    for process, place in _processes(rows):
        found.setdefault(place, []).append(process)
    return found


def _processes(rows: Sequence[Sequence[str]]) -> Iterator[tuple[CardProcess, Place]]:
    for row in rows:
        match = _PROCESS.match(row[0]) if len(row) == 1 else None
        if match is None:
            continue
        process = CardProcess(
            pid=int(match["pid"]),
            name=smi_values.words(match["name"]),
            memory_bytes=smi_values.mib(match["memory"]),
            kind=match["kind"],
        )
        ids = tuple(smi_values.whole(match[name] or "") for name in ("gi", "ci"))
        yield process, (int(match["gpu"]), *(() if None in ids else ids))


def _whole(
    card: Card,
    instances: Mapping[Place, Instance] | None,
    processes: Mapping[Place, Sequence[CardProcess]] | None,
) -> Card:
    """Return a card with its instances, where it has any, and the processes on each."""
    if card.mig and instances is not None:
        mine = tuple(
            msgspec.structs.replace(one, processes=_of(place, processes))
            for place, one in instances.items()
            if place[0] == card.index
        )
        card = msgspec.structs.replace(card, instances=mine)
    return msgspec.structs.replace(card, processes=_of((card.index,), processes))


def _of(
    place: Place, processes: Mapping[Place, Sequence[CardProcess]] | None
) -> tuple[CardProcess, ...] | None:
    return None if processes is None else tuple(processes.get(place, ()))


TOOLS = (Tool("nvidia-smi-table", "nvidia-smi", read_table),)
