"""Run every tool that is here, read what it prints, and say which reader could not."""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from llmgw.base.errors import LlmgwError, Unreadable
from llmgw_agent.look import quiet
from llmgw_agent.parse.catalog import tool
from llmgw_agent.parse.nvidia_smi_errors import read_failure
from tests.hardware import look

OK, ABSENT, FAILED = "ok", "not here", "FAILED"
TIMEOUT = 30.0
NVIDIA = "nvidia-smi"


@dataclass(frozen=True, slots=True)
class Printed:
    """A reader and the command whose output it reads."""

    reader: str
    argv: tuple[str, ...]
    name: str = ""
    """Of the kept text, where a reader has several."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one reader did."""

    name: str
    state: str
    words: str


_QUERY = "index,uuid,name,pci.bus_id,memory.total,memory.used,utilization.gpu,temperature.gpu"
_PRINTED = (
    Printed("nvidia-smi-csv", (NVIDIA, f"--query-gpu={_QUERY}", "--format=csv,nounits")),
    Printed("nvidia-smi-help", (NVIDIA, "--help-query-gpu")),
    Printed("nvidia-smi-L", (NVIDIA, "-L")),
    Printed("nvidia-smi-table", (NVIDIA,)),
    Printed("nvidia-smi-q", (NVIDIA, "-q")),
    Printed("nvidia-smi-q-x", (NVIDIA, "-q", "-x")),
    Printed("nvidia-smi-topo", (NVIDIA, "topo", "-m")),
    Printed("nvidia-smi-nvlink", (NVIDIA, "nvlink", "-s"), "status"),
    Printed("nvidia-smi-nvlink", (NVIDIA, "nvlink", "-e"), "errors"),
    Printed("imex-devices", ("cat", "/proc/devices")),
    Printed("imex-nodes", ("cat", "/etc/nvidia-imex/nodes_config.cfg")),
    Printed("xid", ("dmesg", "--kernel", "--time-format=iso")),
    Printed("lspci", ("lspci", "-vvv")),
    Printed("dcgm-exporter", ("curl", "-sf", "-m", "5", "http://127.0.0.1:9400/metrics")),
    Printed("sensors", ("sensors", "-A", "-u")),
    Printed("statfs", ("stat", "-f", "/", "/var", "/tmp")),
    Printed("cpuinfo", ("cat", "/proc/cpuinfo")),
    Printed("meminfo", ("cat", "/proc/meminfo")),
    Printed("proc-stat", ("cat", "/proc/stat")),
    Printed("loadavg", ("cat", "/proc/loadavg")),
    Printed("ibstat", ("ibstat",)),
    Printed("ibstatus", ("ibstatus",)),
    Printed("ibdev2netdev", ("ibdev2netdev",)),
    Printed("show_gids", ("show_gids",)),
    Printed("sminfo", ("sminfo",)),
    Printed("saquery", ("saquery", "SMIR")),
)
_MAY_BE_EMPTY = ("xid",)
"""Readers of texts that tell of what happened: that is nothing on a machine that is well."""

_TREES = {
    "sys-class-infiniband": "/sys/class/infiniband",
    "hwmon": "/sys/class/hwmon",
    "rapl": "/sys/class/powercap",
}
"""Directories of which a reader reads a listing, made by the command that `llmgw parse` names."""


def main() -> int:
    """Check all; return 1 when a reader failed."""
    parser = argparse.ArgumentParser(prog="tests/hardware/check.sh", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path("hardware-check"))
    place: Path = parser.parse_args().directory
    quiet()
    place.mkdir(parents=True, exist_ok=True)
    verdicts = [*_readers(place), *_looks(place)]
    width = max(len(one.name) for one in verdicts)
    for one in verdicts:
        print(f"{one.name:<{width}}  {one.state:<8}  {one.words}")
    failed = sum(one.state == FAILED for one in verdicts)
    print(
        f"\n{failed} failed; texts and records: {place}/ (look through them before you send them)"
    )
    return 1 if failed else 0


def _readers(place: Path) -> Iterator[Verdict]:
    for printed in _PRINTED:
        yield _of_printed(printed, place)
    for reader, root in _TREES.items():
        if any(Path(root).glob("*")):
            yield _of_printed(Printed(reader, ("bash", "-c", tool(reader).how)), place)
        else:
            yield Verdict(reader, ABSENT, f"nothing in {root}")


def _of_printed(printed: Printed, place: Path) -> Verdict:
    name = f"{printed.reader} {printed.name}".strip()
    program, argument = printed.argv[0], printed.argv[-1]
    missing = program == "cat" and not Path(argument).exists()
    if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
        return Verdict(name, ABSENT, f"no {program}")
    if missing:
        return Verdict(name, ABSENT, f"no {argument}")
    try:
        done = subprocess.run(
            printed.argv, capture_output=True, timeout=TIMEOUT, check=False, env=_environ()
        )
    except subprocess.TimeoutExpired:
        return Verdict(name, FAILED, f"{' '.join(printed.argv)}: nothing within {TIMEOUT:g} s")
    if program == "curl" and done.returncode:
        return Verdict(name, ABSENT, f"nothing answers at {argument}")
    text = done.stdout.decode(errors="replace")
    said = text.strip() or done.stderr.decode(errors="replace").strip()
    if done.returncode and program == NVIDIA and not text.startswith("="):
        return Verdict(name, *_of_smi(f"{text}\n{done.stderr.decode(errors='replace')}", done))
    if done.returncode and program not in ("ibstat", NVIDIA):
        return Verdict(
            name, ABSENT, f"exit status {done.returncode}: {' '.join(said.split())[:90]}"
        )
    return _read(printed.reader, name, text, place)


def _of_smi(said: str, done: subprocess.CompletedProcess[bytes]) -> tuple[str, str]:
    """Return what a failure of nvidia-smi means: that there are no cards, or what is wrong."""
    try:
        seen = read_failure(said, done.returncode)
    except Unreadable:
        # Of what this driver or card has not: NVLink, an option that is newer.
        return ABSENT, f"exit status {done.returncode}: {' '.join(said.split())[:90]}"
    return (ABSENT, "no cards") if seen.warning is None else (FAILED, seen.warning[:120])


def _read(reader: str, name: str, text: str, place: Path) -> Verdict:
    file = place / f"{name.replace(' ', '-')}.txt"
    file.write_text(text)
    try:
        record = tool(reader).read(text)
    except LlmgwError as error:
        return Verdict(name, FAILED, error.message[:120])
    except Exception as error:  # noqa: BLE001 (a reader's own fault is what is looked for)
        return Verdict(name, FAILED, f"{type(error).__name__}: {error}"[:120])
    data = msgspec.json.format(msgspec.json.encode(record), indent=2)
    file.with_suffix(".json").write_bytes(data)
    if isinstance(record, Sequence) and not record and reader not in _MAY_BE_EMPTY:
        return Verdict(name, ABSENT, f"nothing of it in {len(text)} characters")
    many = f"{len(record)} read" if isinstance(record, Sequence) else "read"
    return Verdict(name, OK, f"{many}, {len(text)} characters")


def _looks(place: Path) -> Iterator[Verdict]:
    """Say how this agent's own probes do here, and whether both ways to the cards agree."""
    for name, state, words in look.verdicts(place):
        yield Verdict(name, state, words)


def _environ() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}


if __name__ == "__main__":
    sys.exit(main())
