"""What the console costs with many nodes: bytes on the line, time to paint, memory, processor.

`python -m tests.bench.console [nodes] [changes a second]`. Milliseconds are this machine's and its
load's; bytes and counts are not.
"""

import os
import statistics
import sys
import time
from collections.abc import Sequence

from tests.flow.tui.terminals import Terminal, console

COLUMNS, LINES = 160, 50
SECONDS = 6.0
PRESSES = 40


def _processor(pid: int) -> float:
    """Return the seconds of processor that a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> float:
    """Return a process's resident memory in MB."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _paint(terminal: Terminal, key: str) -> float:
    """Return the milliseconds from a key to the next byte."""
    terminal.read(0.05)
    before, start = len(terminal.output), time.monotonic()
    terminal.send(key)
    terminal.wait_for(lambda: len(terminal.output) > before)
    return (time.monotonic() - start) * 1000


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    nodes = int(argv[0]) if argv else 2000
    changes = int(argv[1]) if len(argv) > 1 else nodes // 10
    for label, churn in (("at rest", 0), (f"{changes} changes/s", changes)):
        arguments = [str(nodes), "--churn", str(churn), "--every", "1"]
        start = time.monotonic()
        with Terminal(console(*arguments), columns=COLUMNS, lines=LINES) as terminal:
            terminal.wait_text("live", "Capacity")
            print(f"{nodes} nodes, {label}, {COLUMNS}x{LINES}")
            print(f"  first overview   {time.monotonic() - start:6.2f} s")
            terminal.send("2")
            terminal.wait_text("NODE")
            terminal.read(1.5)
            used, begun = _processor(terminal.pid), time.monotonic()
            sent = terminal.read(SECONDS)
            spent = time.monotonic() - begun
            print(f"  sent             {sent / spent:6.0f} bytes/s")
            print(f"  processor        {(_processor(terminal.pid) - used) / spent * 100:6.1f} %")
            paints = sorted(_paint(terminal, "jk"[n % 2]) for n in range(PRESSES))
            middle, late = statistics.median(paints), paints[int(PRESSES * 0.95)]
            print(f"  key to paint     {middle:6.0f} ms median, {late:.0f} ms p95")
            print(f"  memory           {_memory(terminal.pid):6.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
