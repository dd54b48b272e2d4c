"""What decides whether a build runs on this machine: architecture, C library, processor."""

import hashlib
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from llmgw_agent.parse.build_features import lacking
from llmgw_agent.parse.cpuinfo import read_flags

_CPUINFO = Path("/proc/cpuinfo")
_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Machine:
    """Architecture as the kernel names it, and glibc's version; None where there is no glibc."""

    architecture: str
    glibc: str | None
    flags: frozenset[str] = frozenset()
    """What its processor can, as the kernel names it; empty: not known, nothing is refused."""

    @staticmethod
    def here() -> "Machine":
        """Return this machine."""
        library, version = platform.libc_ver()
        return Machine(
            architecture=platform.machine(),
            glibc=version if library == "glibc" else None,
            flags=_flags_here(),
        )

    def words(self) -> str:
        """Return `x86_64, glibc 2.36`."""
        return f"{self.architecture}, {f'glibc {self.glibc}' if self.glibc else 'no glibc'}"

    def refuses(self, architecture: str, glibc: str | None) -> str | None:
        """Return why a build for that platform does not run here; None when it does.

        Args:
            architecture: what the build is for.
            glibc: the oldest glibc that it runs on; None: any, or not known.
        """
        if architecture != self.architecture:
            return f"is built for {architecture}, this machine is {self.architecture}"
        if glibc is None:
            return None
        if self.glibc is None:
            return f"needs glibc {glibc}, this machine has another C library"
        if _version(self.glibc) < _version(glibc):
            return f"needs glibc {glibc}, this machine has {self.glibc}"
        return None

    def lacks(self, features: Iterable[str]) -> str | None:
        """Return why a build for such a processor does not run here; None when it does.

        Args:
            features: what it was compiled for, as `system_info` of llama.cpp names it.
        """
        unmet = lacking(features, self.flags)
        if not unmet:
            return None
        return f"needs {_listed(unmet)}, which this processor does not have"

    def processor(self) -> str:
        """Return a short name of what this processor can: machines that can the same share it."""
        text = " ".join((self.architecture, *sorted(self.flags)))
        return hashlib.sha256(text.encode()).hexdigest()[:8]


def _flags_here() -> frozenset[str]:
    try:
        return read_flags(_CPUINFO.read_text(errors="replace"))
    except OSError:
        return frozenset()


def _listed(words: tuple[str, ...]) -> str:
    """Return `A`, `A and B` or `A, B and C`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in _NUMBERS.findall(text))
