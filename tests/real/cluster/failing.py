"""Nodes whose tools and helpers fail, beside some on which nothing does: to be compared."""

import json
import os
import re
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from llmgw.base.system import SystemProcesses
from tests.cluster import ClusterOfMachines
from tests.fakes.nvidia_smi import StubNvidiaSmi
from tests.fakes.recorded_machine import RecordedMachine
from tests.flow.tui.terminals import Terminal
from tests.real.cluster.watching import ctl, node
from tests.waiting import wait_for

HELPERS = re.compile(r"llmgw_agent\.\w+\.(\w+_side)\b")
TOOL = re.compile(r"tests\.fakes\.(stub_nvidia_smi)\b")

WELL = "well"
"""A node on which nothing fails."""

INTERVAL = 1.0
"""Seconds between heartbeats: `tests.cluster.FAST`."""


class Stopper:
    """Stops (SIGSTOP) the children of a process that do one kind of work, as soon as they appear.

    Until `release`, every one of them, so that who replaces it is stopped as well.
    """

    def __init__(self, pid: int, work: re.Pattern[str], *, most: int | None = None) -> None:
        self.stopped: dict[int, str] = {}
        """What each did, by pid."""
        self._pid = pid
        self._work = work
        self._most = most
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of which one was stopped."""
        return frozenset(self.stopped.values())

    def release(self) -> None:
        """Stop no more of them."""
        self._released.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._released.wait(0.005):
            for pid in children_of(self._pid):
                match = self._work.search(command_of(pid))
                if match is None or pid in self.stopped or len(self.stopped) == self._most:
                    continue
                try:
                    os.kill(pid, signal.SIGSTOP)
                except ProcessLookupError:
                    continue
                self.stopped[pid] = match[1]


@dataclass(frozen=True)
class Count:
    """A node's last heartbeat: its number, and when it was sent."""

    number: int
    sent: float


@dataclass
class Failing:
    """A node of the cluster, with a stub of `nvidia-smi` of its own."""

    cluster: ClusterOfMachines
    name: str
    tool: StubNvidiaSmi
    library: Path | None = None
    """The folder of an NVML; None: there is none, and the tool is asked."""
    machine: RecordedMachine | None = None
    filer: Path | None = None
    stops: re.Pattern[str] | None = None
    """What of its children is stopped from its start on."""
    most: int | None = None
    stopper: Stopper | None = None
    took: float = 0.0
    """Seconds from the start of its process until it was registered."""
    began: Count = field(default_factory=lambda: Count(0, 0.0))

    def start(self) -> None:
        more: dict[str, Any] = {"model_dirs": [str(self.filer)]} if self.filer else {}
        environ = {"PATH": f"{self.tool.bin}:{os.environ['PATH']}"}
        if self.library is not None:
            environ["LD_LIBRARY_PATH"] = str(self.library)
        begin = time.time()
        if self.machine is not None:
            self.cluster.start_machine(self.name, self.machine, environ=environ, **more)
        else:
            self.cluster.start_agent(self.name, environ=environ, **more)
        if self.stops is not None:
            self.stop(self.stops)
        welcomed = wait_for(lambda: self.said("welcomed"), 30, what=f"{self.name} registers")
        self.took = at(welcomed) - begin
        self.began = wait_for(self.count, 10) or self.began

    def stop(self, work: re.Pattern[str]) -> Stopper:
        """Stop what it starts for that work, and what it has running."""
        self.stopper = Stopper(self.pid, work, most=self.most)
        return self.stopper

    @property
    def pid(self) -> int:
        return self.cluster.owner.services[self.name].pid

    @property
    def registered_after(self) -> float:
        """Return the seconds from the first word of the agent until it was registered."""
        return at(self.said("welcomed")) - at(self.said("agent starts"))

    def said(self, event: str) -> dict[str, Any]:
        return next((line for line in self.log() if line.get("event") == event), {})

    def seen(self) -> dict[str, Any]:
        return node(self.cluster, self.name)

    def sample(self) -> dict[str, Any]:
        found: dict[str, Any] = self.seen()["sample"] or {}
        return found

    def count(self) -> Count | None:
        found = self.sample()
        return Count(found["sequence"], found["sent"]) if found else None

    def missing(self, since: Count) -> float:
        """Return how many heartbeats were not sent of those due since another one."""
        now = self.count()
        assert now is not None
        return (now.sent - since.sent) / INTERVAL - (now.number - since.number)

    def probe(self, name: str) -> dict[str, Any]:
        found = self.sample().get("probes") or ()
        return next((one for one in found if one["name"] == name), {})

    def failing(self, name: str, words: str = "", timeout: float = 45.0) -> dict[str, Any]:
        """Wait until a probe says that it fails."""

        def fails() -> dict[str, Any]:
            seen = self.probe(name)
            return seen if seen.get("error") and words in seen["error"] else {}

        return wait_for(fails, timeout, what=f"{name} fails")

    def recovered(self, name: str, timeout: float = 45.0) -> None:
        """Wait until a probe fails no more, or what is left of it is not its tool."""

        def fine() -> bool:
            seen = self.probe(name)
            return bool(seen) and not seen.get("error")

        wait_for(fine, timeout, what=f"{name} recovers")

    def cards(self) -> list[dict[str, Any]]:
        return list(self.seen()["inventory"].get("devices") or ())

    def sick(self) -> list[bool]:
        return [bool(card["unhealthy"]) for card in self.cards()]

    def warned(self, words: str) -> bool:
        found = self.seen()["inventory"].get("warnings") or ()
        return any(words in warning["words"] for warning in found)

    def children(self) -> list[int]:
        return children_of(self.pid)

    def zombies(self) -> list[int]:
        """Return the children that ended and were not waited for, now and a moment later."""
        before = {pid for pid in self.children() if state_of(pid) == "Z"}
        if before:
            wait_for(lambda: not any(state_of(pid) == "Z" for pid in before), 2, what="no zombies")
        return sorted(pid for pid in before if SystemProcesses().look(pid) and state_of(pid) == "Z")

    def log(self) -> list[dict[str, Any]]:
        lines = (self.cluster.directory / f"{self.name}.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def told(self, name: str, words: str, *, console: bool = True) -> None:
        """Check that command and console name a probe that fails, since when, and why."""
        since = self.failing(name, words)["failing"]
        assert since is not None
        row = rf"^{re.escape(name)} +! fails .* \d[\dhms.]* +\S.*{re.escape(words)}"
        said = ctl(self.cluster, "node", self.name)
        assert re.search(row, said, re.MULTILINE), said
        if not console:
            return
        page = console_page(self)
        row = rf"{re.escape(name)} +▲ fails +for <?\d[\dhms.]*: .*{re.escape(words)}"
        assert re.search(row, page, re.MULTILINE), page


def console_page(one: Failing) -> str:
    """Return what the console shows of a node, in a terminal with room for all of it."""
    environ = {
        "LLMGW_SERVER": f"http://{one.cluster.admin}",
        "LLMGW_TOKEN_FILE": str(one.cluster.token_file),
    }
    argv = [sys.executable, "-m", "llmgw", "console", "--readonly"]
    with Terminal(argv, columns=170, lines=140, environ=environ) as terminal:
        terminal.wait_text("live", "2 Nodes")
        terminal.send("2")
        terminal.wait_text("▸ Nodes", WELL, one.name)
        terminal.send(f"/{one.name}")
        terminal.wait_for(lambda: WELL not in terminal.text(), "the other nodes are filtered out")
        terminal.send("\r")
        terminal.settle(0.2)
        terminal.send("\r")
        terminal.wait_text(f"Node {one.name} ", "Probes", "kernel-log")
        return terminal.text()


def at(line: dict[str, Any]) -> float:
    """Return when a line of a log was written, in seconds since the epoch."""
    return datetime.fromisoformat(line["timestamp"]).timestamp()


def children_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(word) for word in text.split()]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
