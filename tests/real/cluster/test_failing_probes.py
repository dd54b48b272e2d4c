"""A tool that hangs, lies or vanishes costs its own readings: never the node, never a heartbeat."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from llmgw.base.places import Places
from llmgw.local.cluster import Layout, LocalCluster
from tests.cluster import FAST
from tests.fakes.nvidia_smi import EXIT, H100, HALF, HANG, Fault, StubNvidiaSmi
from tests.real.cluster.dead_mount import dead_mount
from tests.real.cluster.watching import node
from tests.waiting import wait_for

pytestmark = pytest.mark.real

HANGS, HANGS_FIRST, MISMATCH, MISMATCH_FIRST = "hangs", "hangs-first", "mismatch", "mismatch-first"
HALVES, VANISHES, STOPPED, FILER = "halves", "vanishes", "stopped", "filer"

FAULTS = {
    HANGS: Fault(how=HANG, after=1),
    HANGS_FIRST: Fault(how=HANG),
    MISMATCH: Fault(how=EXIT, after=1),
    MISMATCH_FIRST: Fault(how=EXIT),
    HALVES: Fault(how=HALF, kind="query-gpu", after=1),
}
"""What the tool of each node does; the others' does no wrong."""

REGISTERS_WITHIN = 5.0
STARTS_WITHIN = 6.0
"""Seconds that a Python process, its imports and its join may take on a busy machine."""


@dataclass
class Failing:
    """A node of the cluster, with a stub of `nvidia-smi` of its own."""

    cluster: LocalCluster
    name: str
    tool: StubNvidiaSmi
    filer: Path | None = None
    took: float = 0.0
    """Seconds from its start until it was ready."""

    def start(self) -> None:
        begin = time.monotonic()
        more = {"model_dirs": [str(self.filer)]} if self.filer else {}
        environ = {"PATH": f"{self.tool.bin}:{os.environ['PATH']}"}
        self.cluster.start_agent(self.name, environ=environ, **more)
        self.cluster.wait(lambda: self.seen()["liveness"] == "ready", 30, self.name)
        self.took = time.monotonic() - begin
        # What follows is about heartbeats, of which there has to be one.
        self.sequence = wait_for(self.sample, 10)["sequence"]
        self._at = time.monotonic()

    def seen(self) -> dict[str, Any]:
        return node(self.cluster, self.name)

    def sample(self) -> dict[str, Any]:
        found: dict[str, Any] = self.seen()["sample"] or {}
        return found

    def probe(self, name: str) -> dict[str, Any]:
        return next(p for p in self.sample().get("probes") or () if p["name"] == name)

    def failing(self, name: str, words: str = "", timeout: float = 45.0) -> dict[str, Any]:
        """Wait until a probe says that it fails."""

        def fails() -> dict[str, Any]:
            seen = self.probe(name)
            return seen if seen.get("error") and words in seen["error"] else {}

        return wait_for(fails, timeout, what=f"{name} fails")

    def recovered(self, name: str, timeout: float = 45.0) -> None:
        wait_for(lambda: not self.probe(name).get("error"), timeout, what=f"{name} recovers")

    def cards(self) -> list[dict[str, Any]]:
        return list(self.seen()["inventory"].get("devices") or ())

    def sick(self) -> list[bool]:
        return [bool(card["unhealthy"]) for card in self.cards()]

    def warned(self, words: str) -> bool:
        found = self.seen()["inventory"].get("warnings") or ()
        return any(words in warning["words"] for warning in found)

    def registered_in_time(self) -> bool:
        return self.took < STARTS_WITHIN + REGISTERS_WITHIN

    def missed_none(self) -> bool:
        """Say whether a heartbeat came each interval (1 s) since, a busy machine's fifth apart."""
        passed = time.monotonic() - self._at
        came: int = self.sample()["sequence"] - self.sequence
        return came >= passed * 0.8 - 2

    def children(self) -> list[int]:
        return children_of(self.cluster.owner.services[self.name].pid)

    def zombies(self) -> list[int]:
        return [pid for pid in self.children() if state_of(pid) == "Z"]

    def log(self) -> list[dict[str, Any]]:
        lines = (self.cluster.directory / f"{self.name}.log").read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


Nodes = dict[str, Failing]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """A cluster in which each node has a fault of its own; they begin at once, and so do waits."""
    place = tmp_path_factory.mktemp("failing")
    places = Places.find("agent", environ=os.environ, root=False)
    layout = Layout(
        directory=str(place / "cluster"),
        weights=str(places.weights),
        engines=str(places.engines),
        settings=dict(FAST),
    )
    cluster = LocalCluster(layout, os.environ)
    with ExitStack() as stack:
        stack.callback(cluster.end)
        filer = _filer(place, stack)
        cluster.start_server()
        cluster.put_settings(layout.settings)
        made = {
            name: Failing(cluster, name, StubNvidiaSmi(place / name, H100))
            for name in (*FAULTS, VANISHES, STOPPED, FILER)
        }
        made[FILER].filer = filer
        for name, one in made.items():
            if name in FAULTS:
                one.tool.fail(FAULTS[name])
            one.start()
        for name in (VANISHES, STOPPED):
            wait_for(partial(_read, made[name]), 20, what=f"{name} has read its cards and disks")
        made[VANISHES].tool.vanish()
        for pid in made[STOPPED].children():
            if "llmgw_agent.host.disk_side" in command_of(pid):
                os.kill(pid, signal.SIGSTOP)
        yield made


def _filer(place: Path, stack: ExitStack) -> Path | None:
    try:
        return stack.enter_context(dead_mount(place / "dead"))
    except OSError:
        return None


def _read(one: Failing) -> bool:
    return len(one.cards()) == 8 and bool(one.sample().get("filesystems"))


@pytest.mark.parametrize("name", [*FAULTS, VANISHES, STOPPED, FILER])
def test_every_node_registers_within_five_seconds_whatever_its_tools_do(nodes: Nodes, name: str):
    assert nodes[name].registered_in_time(), nodes[name].took


def test_a_tool_that_hangs_after_its_first_good_answer_is_named_and_left_to_itself(nodes: Nodes):
    one = nodes[HANGS]
    seen = one.failing("gpus")
    assert seen["failing"] >= 0
    assert seen["age"] is not None
    assert len(one.cards()) == 8
    said = ctl(one.cluster, "node", HANGS)
    assert "gpus" in said
    assert seen["error"][:20] in said
    assert one.missed_none()


def test_a_tool_that_hangs_from_the_start_is_named(nodes: Nodes):
    one = nodes[HANGS_FIRST]
    assert one.failing("gpus")["age"] is None
    assert one.missed_none()


@pytest.mark.parametrize("name", [MISMATCH, MISMATCH_FIRST])
def test_a_mismatch_of_driver_and_library_is_a_warning(nodes: Nodes, name: str):
    one = nodes[name]
    wait_for(lambda: one.warned("reboot"), 30)
    assert "reboot" in ctl(one.cluster, "node", name)
    assert one.missed_none()


def test_half_a_row_costs_that_card_and_not_the_others(nodes: Nodes):
    one = nodes[HALVES]
    wait_for(lambda: len(one.tool.calls()) > 12, 60)
    assert len(one.cards()) == 8
    readings = one.sample().get("devices") or ()
    assert readings
    assert not [r for r in readings if r.get("memory_total_bytes") == 0]
    assert one.missed_none()


def test_a_helper_that_is_stopped_is_replaced(nodes: Nodes):
    one = nodes[STOPPED]
    wait_for(
        lambda: any("no answer" in str(line.get("error")) for line in one.log()),
        45,
        what="it was said once",
    )
    one.recovered("disks")
    wait_for(lambda: one.sample().get("filesystems"), 30)
    assert one.missed_none()
    assert one.zombies() == []


def test_a_mount_that_does_not_answer_costs_its_own_directories_alone(nodes: Nodes):
    one = nodes[FILER]
    if one.filer is None:
        pytest.skip("no FUSE filesystem can be mounted here")
    assert one.failing("disks", str(one.filer))["failing"] >= 0
    wait_for(lambda: one.sample().get("filesystems"), 60)
    assert str(one.filer) in ctl(one.cluster, "node", FILER)
    assert one.missed_none()
    assert one.zombies() == []


def test_a_reading_is_not_repeated_for_ever_and_its_cards_are_not_forgotten(nodes: Nodes):
    one = nodes[HANGS]
    wait_for(lambda: not one.sample().get("devices"), 90)
    assert one.sick() == [True] * 8
    assert one.missed_none()
    assert one.zombies() == []
    one.tool.fail()
    one.recovered("gpus")
    wait_for(lambda: one.sick() == [False] * 8, 30)
    for event in ("pass failed", "pass recovered"):
        said = [
            (line.get("error"), line.get("sentence"))
            for line in one.log()
            if line.get("event") == event and line.get("name") == "gpus"
        ]
        assert said
        assert len(said) == len(set(said)), "the same words more than once"


def test_a_tool_that_vanishes_leaves_its_cards_as_unhealthy_and_not_as_gone(nodes: Nodes):
    one = nodes[VANISHES]
    wait_for(lambda: one.sick() == [True] * 8, 90)
    assert one.missed_none()
    one.tool.appear()
    wait_for(lambda: one.sick() == [False] * 8, 90)


def ctl(cluster: LocalCluster, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "llmgw", "ctl", *words],
        env={
            **os.environ,
            "LLMGW_SERVER": f"http://{cluster.admin}",
            "LLMGW_TOKEN_FILE": str(cluster.token_file),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def children_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except FileNotFoundError:
        return []
    return [int(word) for word in text.split()]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except FileNotFoundError:
        return ""


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""
