"""What a process has used: processor time and memory, as /proc tells it."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of processor since its start, and bytes resident now."""

    cpu_seconds: float
    rss_bytes: int

    def __str__(self) -> str:
        return f"{self.cpu_seconds:.1f} s CPU, {self.rss_bytes / 1e6:.0f} MB"


def spent(pid: int) -> Spent | None:
    """Return what a process has used; None when it is gone."""
    place = Path(f"/proc/{pid}")
    try:
        fields = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()
        pages = int((place / "statm").read_text().split()[1])
    except (OSError, IndexError):
        return None
    ticks = int(fields[11]) + int(fields[12])
    return Spent(
        cpu_seconds=ticks / os.sysconf("SC_CLK_TCK"),
        rss_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
    )
