"""The machine itself: system, kernel, processor."""

from pathlib import Path

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound, Unreadable
from llmgw.base.world import Files
from llmgw.model.node import Host, Inventory, NodeWarning
from llmgw_agent.host.machine import Machine
from llmgw_agent.parse.cpuinfo import Processor, read_cpuinfo
from llmgw_agent.parse.os_release import read_os_release
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.source import Source

NO_AVX2 = NodeWarning(
    subject="cpu",
    words="this processor shows no AVX2, so engines on it are slow or do not start; "
    "on a virtual machine set its CPU type to host: QEMU's default model hides AVX2",
)

_KERNEL = Path("/proc/sys/kernel")


class HostProbe(Source):
    """What seldom changes about a machine. A part that can't be read costs itself alone."""

    name = "host"
    period = 60.0
    timeout = 10.0

    def __init__(self, files: Files, clock: Clock, machine: Machine) -> None:
        self._files = files
        self._machine = machine
        self._processor = Processor()
        self.host: Kept[Host] = Kept(clock)

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        return self.host.age

    @property
    def warnings(self) -> tuple[NodeWarning, ...]:
        """Return what a person should know about the processor."""
        extensions = self._processor.extensions
        expected = self._processor.x86 and extensions is not None
        return (NO_AVX2,) if expected and "avx2" not in (extensions or ()) else ()

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add the machine, and what a person should know about its processor."""
        warnings = (*(inventory.warnings or ()), *self.warnings)
        return msgspec.structs.replace(inventory, host=self.host.last, warnings=warnings)

    async def read(self) -> str:
        """Read the kernel's and the system's files."""
        self._processor = self._read_processor()
        host = Host(
            hostname=self._line(_KERNEL / "hostname"),
            boot_id=self._line(_KERNEL / "random/boot_id"),
            os=self._read_system(),
            kernel=self._line(_KERNEL / "osrelease"),
            architecture=self._machine.architecture,
            cpu_model=self._processor.model,
            cpu_extensions=self._processor.extensions,
        )
        self.host.put(host)
        return f"{host.os or 'unknown system'}, kernel {host.kernel or 'unknown'}"

    def _read_processor(self) -> Processor:
        text = self._text(Path("/proc/cpuinfo"))
        try:
            return Processor() if text is None else read_cpuinfo(text)
        except Unreadable:
            return Processor()

    def _read_system(self) -> str | None:
        text = self._text(Path("/etc/os-release")) or self._text(Path("/usr/lib/os-release"))
        try:
            return None if text is None else read_os_release(text)
        except Unreadable:
            return None

    def _line(self, path: Path) -> str | None:
        text = self._text(path)
        return text.strip() or None if text is not None else None

    def _text(self, path: Path) -> str | None:
        try:
            return self._files.read(path).decode(errors="replace")
        except (NotFound, OSError):
            return None
