"""A tool that hangs, lies or vanishes costs its own readings: never the node, never a heartbeat."""

import ctypes.util
import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from llmgw.base.places import Places
from llmgw.local.cluster import Layout
from llmgw_agent.core import FIRST_LOOK
from tests.cluster import FAST, ClusterOfMachines
from tests.fakes import recorded_machine
from tests.fakes.nvidia_smi import EXIT, H100, HALF, HANG, Fault, StubNvidiaSmi
from tests.fakes.nvml_library import nvml_library
from tests.fakes.recorded_machine import RecordedMachine
from tests.real.cluster.dead_mount import dead_mount
from tests.real.cluster.failing import HELPERS, TOOL, WELL, Failing
from tests.real.cluster.watching import ctl
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        ctypes.util.find_library("nvidia-ml") is not None,
        reason="agents would ask this machine's own NVIDIA driver",
    ),
]

STILL_WELL = "spare"
HANGS, HANGS_FIRST, MISMATCH, MISMATCH_FIRST = "mute", "silent", "mismatch", "old-driver"
# No name is a word of an error: the console finds a node by any word of its row.
HALVES, VANISHES, FILER = "halves", "vanishes", "filer"
STOPPED, STOPPED_FIRST, STOPPED_TOOL = "stopped", "never-ran", "tool-halted"

FAULTS = {
    HANGS: Fault(how=HANG, after=1),
    HANGS_FIRST: Fault(how=HANG),
    MISMATCH: Fault(how=EXIT, after=1),
    MISMATCH_FIRST: Fault(how=EXIT),
    HALVES: Fault(how=HALF, kind="query-gpu", after=1),
}
"""What the tool of each node does; the others' does no wrong."""

BAD = (
    HANGS_FIRST, HANGS, VANISHES, STOPPED_FIRST, STOPPED, HALVES, STOPPED_TOOL, FILER, MISMATCH,
    MISMATCH_FIRST,
)  # fmt: skip
ALL = (WELL, *BAD, STILL_WELL)
"""In the order in which they start: what is waited for longest begins first."""

OF_TOOL = ("gpus", "gpu-use", "gpu-health", "topology")
"""The probes that ask nvidia-smi from the start."""

REGISTERS_WITHIN = 5.0

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
    cluster = ClusterOfMachines(layout, os.environ)
    with ExitStack() as stack:
        stack.callback(cluster.end)
        filer = _filer(place, stack)
        cluster.start_server()
        cluster.put_settings(layout.settings)
        made = {n: Failing(cluster, n, StubNvidiaSmi(place / n, H100)) for n in ALL}
        made[FILER].filer = filer
        made[STOPPED_FIRST].stops = HELPERS
        made[STOPPED_TOOL].stops, made[STOPPED_TOOL].most = TOOL, 1
        library = nvml_library(place / "nvml")
        no_machine = recorded_machine.why_not(place / "tried")
        for name in (STOPPED, STOPPED_FIRST):
            made[name].library = library
            if not no_machine:
                made[name].machine = RecordedMachine(place / f"{name}-machine")
        for name, one in made.items():
            if name in FAULTS:
                one.tool.fail(FAULTS[name])
            one.start()
            stack.callback(_release, one)
            if name in (VANISHES, STOPPED):
                wait_for(partial(_read, one), 20, what=f"{name} has read its cards and disks")
            if name == VANISHES:
                one.tool.vanish()
            elif name == STOPPED:
                one.stop(HELPERS)
        yield made


def _filer(place: Path, stack: ExitStack) -> Path | None:
    try:
        return stack.enter_context(dead_mount(place / "dead"))
    except OSError:
        return None


def _release(one: Failing) -> None:
    if one.stopper is not None:
        one.stopper.release()


def _read(one: Failing) -> bool:
    sample = one.sample()
    ports = one.machine is None or sample.get("ports")
    return bool(one.cards()) and bool(sample.get("filesystems")) and bool(ports)


def missed_none(nodes: Nodes, one: Failing) -> bool:
    """Say whether it sent as many heartbeats as a node on which nothing fails, but for one."""
    well = nodes[WELL]
    newest, reference = one.count(), well.count()
    assert newest is not None
    assert reference is not None
    assert newest.sent > reference.sent - 1.5, "its last heartbeat is old"
    # Both since the start of this one: what a busy machine delays it delays for both.
    return one.missing(one.began) <= max(0.0, well.missing(well.began)) + 1


@pytest.mark.parametrize("name", BAD)
def test_every_node_registers_within_five_seconds_whatever_its_tools_do(nodes: Nodes, name: str):
    one = nodes[name]
    assert one.registered_after < REGISTERS_WITHIN
    well = max(nodes[WELL].took, nodes[STILL_WELL].took)
    assert one.took < well + FIRST_LOOK + 1


def test_a_tool_that_hangs_after_its_first_good_answer_is_named_and_left_to_itself(nodes: Nodes):
    one = nodes[HANGS]
    seen = one.failing("gpus")
    assert seen["age"] is not None
    assert len(one.cards()) == 8
    one.told("gpus", "nvidia-smi")
    assert missed_none(nodes, one)


@pytest.mark.parametrize("name", [MISMATCH, MISMATCH_FIRST])
def test_a_mismatch_of_driver_and_library_is_a_warning(nodes: Nodes, name: str):
    one = nodes[name]
    wait_for(lambda: one.warned("reboot"), 30)
    assert "reboot" in ctl(one.cluster, "node", name)
    one.told("gpus", "the", console=False)
    assert missed_none(nodes, one)


def test_half_a_row_costs_that_card_and_not_the_others(nodes: Nodes):
    one = nodes[HALVES]
    wait_for(lambda: len(one.tool.calls()) > 12, 60)
    assert len(one.cards()) == 8
    readings = one.sample().get("devices") or ()
    assert readings
    assert not [r for r in readings if r.get("memory_total_bytes") == 0]
    one.told("gpus", "the answer ends", console=False)
    assert missed_none(nodes, one)


def test_a_tool_that_is_stopped_while_it_runs_is_killed_and_asked_again(nodes: Nodes):
    one = nodes[STOPPED_TOOL]
    assert one.stopper is not None
    stopped = one.stopper.stopped
    assert len(stopped) == 1
    wait_for(lambda: not stopped.keys() & set(one.children()), 30, what="it is killed")
    failed = [line for line in one.log() if line.get("event") == "pass failed"]
    assert {line["name"] for line in failed} & set(OF_TOOL)
    for name in OF_TOOL:
        one.recovered(name, 60)
    assert len(one.cards()) == 8
    assert missed_none(nodes, one)
    assert one.zombies() == []


@pytest.mark.parametrize("name", [STOPPED, STOPPED_FIRST])
def test_helpers_that_are_stopped_are_named(nodes: Nodes, name: str):
    one = nodes[name]
    probes = of_helpers(one)
    for probe in probes:
        one.failing(probe, "no answer within")
    one.told("gpus" if "gpus" in probes else "disks", "no answer within")
    assert one.stopper is not None
    assert one.stopper.kinds >= set(probes.values())
    assert missed_none(nodes, one)


@pytest.mark.parametrize("name", [STOPPED, STOPPED_FIRST])
def test_helpers_that_are_stopped_are_replaced_and_asked_again(nodes: Nodes, name: str):
    for stopped in (STOPPED, STOPPED_FIRST):
        _release(nodes[stopped])
    one = nodes[name]
    for probe in of_helpers(one):
        one.recovered(probe)
    wait_for(lambda: one.sample().get("filesystems"), 30)
    assert missed_none(nodes, one)
    assert one.zombies() == []


def of_helpers(one: Failing) -> dict[str, str]:
    """Return the probes of a node that ask helpers, and which ones."""
    found = {"disks": "disk_side"}
    if one.library is not None:
        found["gpus"] = "nvml_side"
    if one.machine is not None:
        found["ports"] = "tree_side"
    return found


def test_a_tool_that_hangs_from_the_start_is_named(nodes: Nodes):
    one = nodes[HANGS_FIRST]
    assert one.failing("gpus")["age"] is None
    one.told("gpus", "nvidia-smi")
    assert missed_none(nodes, one)


def test_a_mount_that_does_not_answer_costs_its_own_directories_alone(nodes: Nodes):
    one = nodes[FILER]
    if one.filer is None:
        pytest.skip("no FUSE filesystem can be mounted here")
    wait_for(lambda: one.sample().get("filesystems"), 60)
    one.told("disks", str(one.filer))
    assert missed_none(nodes, one)
    assert one.zombies() == []


def test_a_reading_is_not_repeated_for_ever_and_its_cards_are_not_forgotten(nodes: Nodes):
    one = nodes[HANGS]
    wait_for(lambda: not one.sample().get("devices"), 90)
    assert one.sick() == [True] * 8
    assert missed_none(nodes, one)
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
    one.told("gpus", "nvidia-smi")
    assert missed_none(nodes, one)
    one.tool.appear()
    wait_for(lambda: one.sick() == [False] * 8, 90)


@pytest.mark.parametrize("name", ALL)
def test_no_node_missed_a_heartbeat_to_the_end(nodes: Nodes, name: str):
    assert missed_none(nodes, nodes[name])
