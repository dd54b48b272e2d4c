"""A whole machine of recorded files, on which a real agent runs: sysfs, devices, kernel log, tools.

    machine = RecordedMachine(tmp_path / "machine")
    argv = machine.argv([sys.executable, "-m", "llmgw", "agent", ...])

It has eight H100 (see `nvidia_smi.H100`), three ports, the chips and packages of several machines,
and an NVLink domain that none of those machines was in. What its files say an agent finds where it
looks on any machine: nothing is handed to it. Needs root (`why_not`).
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.fakes import machine_mounts
from tests.fakes.nvidia_smi import FIXTURES, H100, Recorded, StubNvidiaSmi

DOMAIN = "b2daed23-0000-0000-0000-000000000000"
"""The cluster of tests/fixtures/nvidia-smi-fabric/gb200-health-healthy.txt, whose clique is 1."""

UNLISTED = "0000:e4:00.0"
"""A card on the bus that the driver does not list."""

IMEX = "nvidia-imex"

_LATE_UUID = "GPU-f"

_METER = """
count=$(cat "$0")
while sleep 2; do
    count=$((count + 190000000))
    echo "$count" > "$0.new" && mv "$0.new" "$0"
done
"""
"""A counter is replaced in one step: whoever reads it never finds half of it."""


class RecordedMachine:
    """Its files below one folder; `bin` belongs at the front of the agent's PATH."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir(parents=True)
        self.tool = StubNvidiaSmi(place / "cards", recorded_cards())
        for name in ("sys", "dev", "proc", "etc", "bin"):
            (place / name).mkdir()
        self._sysfs(place / "sys")
        self._imex()
        self._kernel_log()
        self._subnet_tools()

    @property
    def path(self) -> str:
        """Return the folders with its tools, for a PATH."""
        return f"{self.tool.bin}:{self.place / 'bin'}"

    @property
    def imex(self) -> list[str]:
        """Return the command line of what runs under the name of nvidia-imex."""
        return [str(self.place / "bin" / IMEX), "3600"]

    @property
    def meter(self) -> list[str]:
        """Return the command line of what lets its processors draw 95 W: counters that rise."""
        energy = self.place / "sys/class/powercap/intel-rapl:0/energy_uj"
        return ["sh", "-c", _METER, str(energy)]

    def argv(self, argv: Sequence[str]) -> list[str]:
        """Return a command line that runs another one on this machine."""
        return [sys.executable, machine_mounts.__file__, str(self.place), *argv]

    def _sysfs(self, root: Path) -> None:
        for name, recorded in (
            ("infiniband", "sys-class-infiniband/h100-mlx5.tsv"),
            ("powercap", "rapl/intel-rapl.tsv"),
        ):
            _grow(root / "class" / name, _lines(recorded))
        _grow(root / "class" / "hwmon", _chips())
        cards = re.findall(r"^GPU 0000(\S+)$", (self.tool.data / "q.txt").read_text(), re.MULTILINE)
        for address in (*(one.lower() for one in cards), UNLISTED):
            device = root / "bus/pci/devices" / address
            _put(device / "vendor", "0x10de")
            _put(device / "uevent", "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2330")

    def _imex(self) -> None:
        shutil.copy(FIXTURES / "imex/proc-devices.txt", self.place / "proc/devices")
        nodes = self.place / "etc/nvidia-imex/nodes_config.cfg"
        _put(nodes, (FIXTURES / "imex/nodes_config.cfg").read_text())
        _put(self.place / "dev/nvidia-caps-imex-channels/channel0", "")
        sleep = shutil.which("sleep")
        assert sleep is not None
        shutil.copy(Path(sleep).resolve(), self.place / "bin" / IMEX)

    def _kernel_log(self) -> None:
        log = FIXTURES / "xid/dmesg-iso-48-63-94-h100.txt"
        # What was recorded lost the end of its last line.
        self._script("dmesg", f"cat {log}; echo")
        self._script("journalctl", "echo No journal files were found. >&2; exit 1")

    def _subnet_tools(self) -> None:
        self._script("sminfo", f"exec cat {FIXTURES}/sminfo/master.txt")
        self._script("saquery", f"exec cat {FIXTURES}/saquery/SMIR-two-sms.txt")

    def _script(self, name: str, words: str) -> None:
        path = self.place / "bin" / name
        path.write_text(f"#!/bin/sh\n{words}\n")
        path.chmod(0o755)


def recorded_cards() -> Recorded:
    """Return the eight H100, under UUIDs of their own.

    The first one, of which the kernel log tells, waits for the reset that its log asks for, as a
    recorded A10 does, and has the fabric of a recorded GB200.
    """
    text = (FIXTURES / H100.files["q.txt"]).read_text()
    text = re.sub(r"GPU-[0-9a-f]", _LATE_UUID, text)
    text = _once(text, "Pending                           : No\n        Remapping",
                 "Pending                           : Yes\n        Remapping")  # fmt: skip
    fabric = (FIXTURES / "nvidia-smi-fabric/gb200-health-healthy.txt").read_text()
    section = fabric[fabric.index("    Fabric\n") :].rstrip("\n") + "\n"
    own = re.search(r"^    Fabric\n(?: {8}.*\n)+", text, re.MULTILINE)
    assert own is not None
    text = text.replace(own[0], section, 1)
    files = {name: source for name, source in H100.files.items() if name != "q.txt"}
    return Recorded(files=files, texts={"q.txt": text})


def _once(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def _chips() -> Iterator[tuple[str, str]]:
    """Yield the chips of all recorded machines as those of one, numbered anew."""
    numbers: dict[str, str] = {}
    for path, content in _lines("hwmon/many-chips.tsv"):
        match = re.match(r"(.*/)?hwmon\d+/", path)
        if match is not None:
            chip = numbers.setdefault(match[0], f"hwmon{len(numbers)}")
            yield f"{chip}/{path[match.end() :]}", content


def _lines(recorded: str) -> Iterator[tuple[str, str]]:
    for line in (FIXTURES / recorded).read_text().splitlines():
        path, tab, content = line.partition("\t")
        if tab:
            yield path, content


def _grow(root: Path, files: Iterator[tuple[str, str]]) -> None:
    for path, content in files:
        _put(root / path, content)


def _put(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{content}\n")


def why_not(place: Path) -> str:
    """Return why it can't be done here; empty when it can. It is tried."""
    if os.geteuid() != 0:
        return "only root may lay files over /sys and /dev"
    machine = RecordedMachine(place)
    done = subprocess.run(
        machine.argv(["test", "-e", "/sys/class/infiniband/mlx5_0/ports/1/state"]),
        check=False,
        capture_output=True,
        text=True,
        timeout=20,
    )
    return "" if done.returncode == 0 else f"no machine can be made here: {done.stderr[-300:]}"
