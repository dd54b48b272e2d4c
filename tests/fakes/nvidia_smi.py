"""A folder for a PATH with an `nvidia-smi` in it that answers from recorded output.

    tool = StubNvidiaSmi(tmp_path / "cards", H100)
    environ["PATH"] = f"{tool.bin}:{environ['PATH']}"
    tool.fail(Fault(how=HANG, after=1))

What it answers and how it fails can be changed while an agent asks it.
"""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fakes.stub_nvidia_smi import DATA

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"

HANG, EXIT, HALF = "hang", "exit", "half"

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\n"


@dataclass(frozen=True, slots=True)
class Fault:
    """An order to fail.

    Args:
        how: `hang` (ignores SIGTERM too), `exit` or `half` (ends in the middle of the last row).
        kind: the question that fails (`query-gpu`, `query-compute-apps`, `q`, `q-x`, `L`, `topo`,
            `nvlink-status`, `nvlink-errors`); all of them when it is empty.
        after: how many good answers to that question come before.
        rc: the exit status of `exit`.
        text: what `exit` prints.
    """

    how: str
    kind: str = ""
    after: int = 0
    rc: int = 9
    text: str = MISMATCH


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded of a machine: file of the stub's data, by its name below the fixtures.

    `texts` holds answers of which no recording is there, written out.
    """

    files: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)


H100 = Recorded(
    files={
        "q.txt": "nvidia-smi-q/8x-h100-535-hw-slowdown.txt",
        "topo.txt": "nvidia-smi-topo/8x-h100-no-nic.txt",
        "nvlink-status.txt": "nvidia-smi-nvlink/2x-h100-status.txt",
        "nvlink-errors.txt": "nvidia-smi-nvlink/h100-errors.txt",
        "table.txt": "nvidia-smi-table/8x-550.txt",
    }
)
"""Eight H100, idle, held back by the power brake. The links are those of other machines."""

MIG = Recorded(
    files={
        "q.xml": "nvidia-smi-q-x/a100-80g-mig-4x1g20gb.xml",
        "nvlink-status.txt": "nvidia-smi-nvlink/8x-a100-status.txt",
        "nvlink-errors.txt": "nvidia-smi-nvlink/a10-empty.txt",
    },
    texts={
        "topo.txt": (
            "\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-63\t0\t\tN/A\n"
        ),
        "list.txt": (
            "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-690adda0-83a8-3d78-cc28-02a859b88a85)\n"
            "  MIG 1g.20gb     Device  0: (UUID: MIG-00000000-0000-5000-8000-000000000100)\n"
            "  MIG 1g.20gb     Device  1: (UUID: MIG-00000000-0000-5000-8000-000000000101)\n"
            "  MIG 1g.20gb     Device  2: (UUID: MIG-00000000-0000-5000-8000-000000000102)\n"
            "  MIG 1g.20gb     Device  3: (UUID: MIG-00000000-0000-5000-8000-000000000103)\n"
        ),
    },
)
"""One A100 cut into four. List and matrix are written in the form of recorded ones, for its card;
its links are those of another machine, and nothing tells their errors.
"""


class StubNvidiaSmi:
    """The tool and its data, below one folder."""

    def __init__(self, place: Path, recorded: Recorded) -> None:
        self.bin = place / "bin"
        self.data = place / "data"
        self.bin.mkdir(parents=True)
        self.data.mkdir()
        for name, source in recorded.files.items():
            (self.data / name).write_bytes((FIXTURES / source).read_bytes())
        for name, text in recorded.texts.items():
            (self.data / name).write_text(text)
        self.appear()

    @property
    def tool(self) -> Path:
        """Return the program."""
        return self.bin / "nvidia-smi"

    def appear(self) -> None:
        """Put the program there."""
        environ = {"PYTHONPATH": str(ROOT), DATA: str(self.data), "PYTHONDONTWRITEBYTECODE": "1"}
        pairs = " ".join(f"{name}={shlex.quote(value)}" for name, value in environ.items())
        made = self.bin / "nvidia-smi.new"
        made.write_text(
            f"#!/bin/sh\n{pairs} exec {shlex.quote(sys.executable)} -S "
            '-m tests.fakes.stub_nvidia_smi "$@"\n'
        )
        made.chmod(0o755)
        made.rename(self.tool)

    def vanish(self) -> None:
        """Take the program away, as a driver that is removed does."""
        self.tool.unlink()

    def fail(self, *faults: Fault) -> None:
        """Fail from now on as ordered; no order: answer well again."""
        self._put("faults.json", json.dumps([asdict(fault) for fault in faults]))

    def change(self, changed: Mapping[int, Mapping[str, str]]) -> None:
        """Answer other values than were recorded: `{0: {"utilization.gpu": "87 %"}}`."""
        self._put("changed.json", json.dumps({str(i): dict(one) for i, one in changed.items()}))

    def run_apps(self, apps: Sequence[Mapping[str, str]]) -> None:
        """Say which processes are on the cards: rows of `--query-compute-apps` by field."""
        self._put("apps.json", json.dumps([dict(app) for app in apps]))

    def refuse(self, *fields: str) -> None:
        """Know these fields no more, as older drivers do not."""
        self._put("refused.txt", " ".join(fields))

    def calls(self) -> list[list[str]]:
        """Return the arguments of every call so far."""
        log = self.data / "calls.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def _put(self, name: str, text: str) -> None:
        # At once: a call that reads it sees the old file or the new one.
        made = self.data / f"{name}.new"
        made.write_text(text)
        made.rename(self.data / name)
