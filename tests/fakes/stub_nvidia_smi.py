"""An `nvidia-smi` that answers from recorded output, and fails on order.

`tests.fakes.nvidia_smi` makes one for a PATH. It reads what is in its data directory anew at each
call:

- `q.txt`, `q.xml`: recorded answers of `-q` and `-q -x`; `--query-gpu` is answered from either,
  and `-q` is made of the XML where it was not recorded
- `topo.txt`, `table.txt`: of `topo -m` and of no arguments at all
- `list.txt`: of `-L`; without it the cards are listed
- `nvlink-status.txt`, `nvlink-errors.txt`: of `nvlink -s` and `-e`; each card gets one of the
  recorded blocks under its own name
- `apps.json`: processes on the cards, as rows of `--query-compute-apps` by field
- `changed.json`: `{"0": {"utilization.gpu": "87 %"}}`, fields of a card that are not as recorded
- `refused.txt`: fields that this driver does not know
- `faults.json`: orders to fail, as `nvidia_smi.Fault` writes them
- `calls.log`: the arguments of every call, a line each, which it appends
"""

import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from tests.fakes.nvidia_smi_fields import (
    ALIASES,
    NOT_THERE,
    Card,
    cards_of_report,
    cards_of_xml,
    unit_of,
)
from tests.fakes.nvidia_smi_text import report_of_xml

DATA = "STUB_NVIDIA_SMI"


class Failed(Exception):
    """What it prints, and the status it exits with."""

    def __init__(self, words: str, rc: int) -> None:
        super().__init__(words)
        self.rc = rc


class Stub:
    """One call."""

    def __init__(self, data: Path, argv: list[str]) -> None:
        self._data = data
        self._argv = argv

    def main(self) -> int:
        """Answer; return the exit status."""
        kind = kind_of(self._argv)
        fault = self._fault(kind)
        if fault is not None and fault["how"] == "hang":
            hang()
        if fault is not None and fault["how"] == "exit":
            sys.stdout.write(fault["text"])
            return int(fault["rc"])
        try:
            answer = self._answer(kind)
        except Failed as failed:
            print(failed)
            return failed.rc
        if fault is not None and fault["how"] == "half":
            answer = half(answer)
        sys.stdout.write(answer)
        return 0

    def _fault(self, kind: str) -> dict[str, Any] | None:
        """Return the order to fail that holds for this call, and note the call."""
        with (self._data / "calls.log").open("a+", encoding="utf-8") as log:
            log.write(json.dumps(self._argv) + "\n")
            log.seek(0)
            calls = [kind_of(json.loads(line)) for line in log]
        orders = self._file("faults.json")
        for order in json.loads(orders) if orders else ():
            if order["kind"] in ("", kind) and calls.count(kind) > order["after"]:
                found: dict[str, Any] = order
                return found
        return None

    def _answer(self, kind: str) -> str:
        match kind:
            case "query-gpu":
                return self._query()
            case "query-compute-apps":
                return self._apps()
            case "q":
                return self._file("q.txt") or report_of_xml(self._recorded("q.xml"))
            case "q-x":
                return self._recorded("q.xml")
            case "L":
                return self._file("list.txt") or self._list()
            case "topo":
                return self._recorded("topo.txt")
            case "nvlink-status" | "nvlink-errors":
                return self._nvlink(f"{kind}.txt")
            case "table":
                return self._recorded("table.txt")
            case _:
                raise Failed(f"Invalid combination of input arguments: {self._argv}", 1)

    # -- queries ---------------------------------------------------------------------------

    def _query(self) -> str:
        fields = self._fields("--query-gpu=")
        rows = [[self._cell(card, field) for field in fields] for card in self._chosen()]
        return self._csv([ALIASES.get(one, one) for one in fields], rows)

    def _cell(self, card: Card, field: str) -> str:
        refused = self._file("refused.txt").split()
        changed: dict[str, dict[str, str]] = json.loads(self._file("changed.json") or "{}")
        mine = changed.get(str(card.index), {})
        answer = None if field in refused else card.answer(field)
        if answer is None:
            raise Failed(f'Field "{field}" is not a valid field to query.\n', 2)
        return mine.get(field, mine.get(ALIASES.get(field, field), answer))

    def _apps(self) -> str:
        fields = self._fields("--query-compute-apps=")
        apps: list[Mapping[str, str]] = json.loads(self._file("apps.json") or "[]")
        rows = [[app.get(field, NOT_THERE) for field in fields] for app in apps]
        return self._csv([one.replace("used_memory", "used_gpu_memory") for one in fields], rows)

    def _fields(self, option: str) -> list[str]:
        given = next(a for a in self._argv if a.startswith(option))
        return [field.strip() for field in given.removeprefix(option).split(",")]

    def _csv(self, fields: list[str], rows: list[list[str]]) -> str:
        form = next((a for a in self._argv if a.startswith("--format=")), "").split("=")[-1]
        units = [unit_of(one) for one in fields]
        heads = [f"{n} [{u}]" if u else n for n, u in zip(fields, units, strict=True)]
        if "nounits" in form:
            rows = [
                [
                    cell.removesuffix(f" {u}") if u else cell
                    for cell, u in zip(r, units, strict=True)
                ]
                for r in rows
            ]
        lines = [", ".join(row) for row in rows]
        if "noheader" not in form:
            lines.insert(0, ", ".join(heads))
        return "".join(f"{line}\n" for line in lines)

    # -- recorded texts --------------------------------------------------------------------

    def _cards(self) -> tuple[Card, ...]:
        if text := self._file("q.txt"):
            return cards_of_report(text)
        return cards_of_xml(self._recorded("q.xml"))

    def _chosen(self) -> tuple[Card, ...]:
        """Return the cards that `-i` or `--id=` names, or all."""
        asked = [a.removeprefix("--id=") for a in self._argv if a.startswith("--id=")]
        asked += [b for a, b in zip(self._argv, self._argv[1:], strict=False) if a == "-i"]
        names = {name for one in asked for name in one.split(",")}
        cards = self._cards()
        return tuple(
            card
            for card in cards
            if not names
            or names & {str(card.index), card.answer("uuid"), card.answer("pci.bus_id")}
        )

    def _list(self) -> str:
        return "".join(
            f"GPU {card.index}: {card.answer('name')} (UUID: {card.answer('uuid')})\n"
            for card in self._chosen()
        )

    def _nvlink(self, name: str) -> str:
        text = self._recorded(name)
        blocks = [b for b in re.split(r"^GPU \d+: .*\n", text, flags=re.MULTILINE) if b]
        return "".join(
            f"GPU {card.index}: {card.answer('name')} (UUID: {card.answer('uuid')})\n"
            f"{blocks[card.index % len(blocks)]}"
            for card in self._chosen()
            if blocks
        )

    def _recorded(self, name: str) -> str:
        if not (self._data / name).exists():
            raise Failed("No such answer was recorded of this machine.", 6)
        return self._file(name)

    def _file(self, name: str) -> str:
        try:
            return (self._data / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""


def kind_of(argv: list[str]) -> str:
    """Return which question it is."""
    for option in ("query-gpu", "query-compute-apps"):
        if any(a.startswith(f"--{option}=") for a in argv):
            return option
    first = argv[0] if argv else ""
    if first == "topo":
        return "topo"
    if first == "nvlink":
        return "nvlink-errors" if {"-e", "--errorcounters"} & set(argv) else "nvlink-status"
    if {"-L", "--list-gpus"} & set(argv):
        return "L"
    if {"-q", "--query"} & set(argv):
        return "q-x" if {"-x", "--xml-format"} & set(argv) else "q"
    return "unknown" if argv else "table"


def hang() -> NoReturn:
    """Answer never, and ignore a polite request to end, as a process inside a driver does."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()


def half(answer: str) -> str:
    """Return an answer that ends in the middle of its last line."""
    *lines, last = answer.splitlines(keepends=True) or [""]
    return "".join(lines) + last[: len(last) // 2]


if __name__ == "__main__":
    sys.exit(Stub(Path(os.environ[DATA]), sys.argv[1:]).main())
