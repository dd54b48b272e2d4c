"""InfiniBand fabrics on ibsim: real infiniband-diags and real opensm on simulated links.

Each program runs with a library loaded before its own that stands in for the kernel's user MADs and
connects it to ibsim as one host of the fabric. To it its only adapter is `ibsim0`, and its sysfs
lies in a directory `sys-PID` where it runs, written when it first looks at it.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from llmgw.base.system import SystemProcesses
from llmgw.base.world import PRINTED_MOST, Done
from tests.waiting import wait_for

PATH = f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"
PACKAGES = {"ibsim": "ibsim-utils", "opensm": "opensm", "ibstat": "infiniband-diags"}

ADAPTER = "ibsim0"

# No sweep but by SIGHUP. A manager that begins is announced by a trap a few milliseconds before it
# answers; a sweep at that moment loses its question, and the simulation has no time-outs.
# A standby looks after its master so often (milliseconds), and takes over after so many failures.
_MANAGER = """\
sweep_interval 0
sweep_on_trap FALSE
sminfo_polling_timeout 250
polling_retry_number 2
force_log_flush TRUE
"""

# Anything that looks at the adapters makes the library write its sysfs; it goes when this ends.
_HOLDER = "import os, sys; os.listdir('/sys/class/infiniband'); print(flush=True); sys.stdin.read()"


def why_not() -> str | None:
    """Return why no fabric can be simulated here; None: it can."""
    missing = [package for tool, package in PACKAGES.items() if not shutil.which(tool, path=PATH)]
    if missing:
        return f"needs the packages {' '.join(missing)}"
    return None if _library() else "ibsim-utils is here without its umad2sim library"


def _library() -> Path | None:
    return next(iter(sorted(Path("/usr/lib").glob("*/umad2sim/libumad2sim.so"))), None)


@dataclass
class Fabric:
    """A running fabric: hosts of one port each, all on one switch."""

    directory: Path
    simulator: "subprocess.Popen[str]"
    ending: ExitStack
    managers: dict[str, "subprocess.Popen[str]"] = field(default_factory=dict)

    def environ(self, host: str) -> dict[str, str]:
        """Return the environment of a program that runs on a host."""
        return {
            "PATH": PATH,
            "LD_PRELOAD": str(_library()),
            "IBSIM_SOCKNAME": _socket(self.directory),
            "SIM_HOST": host,
            "OSM_TMP_DIR": str(self.directory / host),
            "OSM_CACHE_DIR": str(self.directory / host),
        }

    def start_manager(self, host: str, priority: int) -> None:
        """Start a subnet manager on a host: the first is master, a later one of less is standby."""
        directory = self.directory / host
        log = directory / "opensm.log"
        (directory / "opensm.conf").write_text(_MANAGER)
        started = self._start(
            *("opensm", "-F", "opensm.conf", "-p", str(priority), "-f", str(log)), host=host
        )
        awaited = "Entering STANDBY state" if self.managers else "SUBNET UP"

        def entered() -> bool:
            assert started.poll() is None, log.read_text() if log.exists() else "it wrote no log"
            return log.exists() and awaited in log.read_text(errors="replace")

        wait_for(entered, 40.0, what=f"{host}: {awaited}")
        for other in self.managers.values():
            other.send_signal(signal.SIGHUP)
        self.managers[host] = started

    def kill_manager(self, host: str) -> None:
        """End a subnet manager as a power cut does."""
        end(self.managers.pop(host), signal.SIGKILL)

    def cut(self, host: str) -> None:
        """Pull a host's cable."""
        assert self.simulator.stdin is not None
        self.simulator.stdin.write(f'Unlink "{host}"[1]\n')
        self.simulator.stdin.flush()

    @contextmanager
    def sysfs(self, host: str) -> Iterator[Path]:
        """Give the sysfs directory of a host's adapter, with its link as it is now."""
        holder = self._start(sys.executable, "-c", _HOLDER, host=host, output=subprocess.PIPE)
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "\n"
            here = self.directory / host / f"sys-{holder.pid}"
            yield here / "sys" / "class" / "infiniband" / ADAPTER
        finally:
            end(holder)

    def _start(self, *argv: str, host: str, output: int | None = None) -> "subprocess.Popen[str]":
        directory = self.directory / host
        with (directory / f"{Path(argv[0]).name}.out").open("w") as out:
            process = subprocess.Popen(
                argv,
                env=self.environ(host),
                cwd=directory,
                stdin=subprocess.PIPE,
                stdout=out if output is None else output,
                stderr=out,
                text=True,
            )
        self.ending.callback(end, process)
        return process


@contextmanager
def simulated(directory: Path, hosts: Sequence[str], first_guid: int) -> Iterator[Fabric]:
    """Run a fabric of these hosts; all that was started on it ends with it."""
    for host in hosts:
        (directory / host).mkdir(parents=True)
    (directory / "net").write_text(_net(hosts, first_guid))
    log = directory / "ibsim.log"
    with ExitStack() as ending, log.open("w") as out:
        simulator = subprocess.Popen(
            ["ibsim", "-s", "net"],
            env={"PATH": PATH, "IBSIM_SOCKNAME": _socket(directory)},
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
        )
        ending.callback(end, simulator)
        wait_for(lambda: "simulator ready" in log.read_text(), 10.0, what="ibsim ready")
        yield Fabric(directory=directory, simulator=simulator, ending=ending)


def guid(first_guid: int, number: int) -> str:
    """Return the GUID of a host's port: hosts are numbered from 0."""
    return f"0x{first_guid + 0x10 * number + 1:016x}"


def _net(hosts: Sequence[str], first_guid: int) -> str:
    """Return the fabric as ibsim reads it: every link is declared at both of its ends."""
    links = [f'[{port}] "{host}"[1]' for port, host in enumerate(hosts, start=1)]
    blocks = [f'Switch {len(hosts)} "leaf"', *links, ""]
    for number, host in enumerate(hosts):
        blocks += [f"caguid=0x{first_guid + 0x10 * number:x}", f'Hca 1 "{host}"']
        blocks += [f'[1] "leaf"[{number + 1}]', ""]
    return "\n".join(blocks)


def _socket(directory: Path) -> str:
    """Return the name of an ibsim's socket, which is the machine's and not of a directory."""
    return f"{os.getpid()}-{directory.parent.name[-24:]}-{directory.name}"


def end(process: "subprocess.Popen[str]", how: signal.Signals = signal.SIGTERM) -> None:
    """End a process and wait for it, by force after five seconds."""
    if process.poll() is None:
        process.send_signal(how)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class NodeProcesses(SystemProcesses):
    """Real processes of a node whose adapters are hosts of simulated fabrics.

    Args:
        rails: fabric and host by adapter. A tool that names none is run on the first.
    """

    def __init__(self, rails: Mapping[str, tuple[Fabric, str]]) -> None:
        super().__init__()
        self._rails = rails

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        most: int = PRINTED_MOST,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Done:
        named = [word for word in argv if word in self._rails]
        fabric, host = self._rails[named[0] if named else next(iter(self._rails))]
        return await super().run(
            [ADAPTER if word in named else word for word in argv],
            timeout=timeout,
            most=most,
            env=fabric.environ(host),
            cwd=fabric.directory / host,
        )
