"""The NVLink domain of a machine, from its cards' fabrics and the signs of nvidia-imex."""

from pathlib import Path

import pytest

from llmgw.base.errors import Unreadable
from llmgw.model.device import Device, NvlinkFabric
from llmgw.model.fabric import NvlinkDomain
from llmgw.model.node import Inventory
from llmgw_agent.probe.imex import ImexProbe, domain_of
from llmgw_agent.probe.smi import OFTEN, SELDOM
from tests.fakes.clock import FakeClock
from tests.fakes.machine import MemoryFiles

FIXTURES = Path(__file__).parents[3] / "fixtures" / "imex"
CLUSTER = "b2daed23-0000-0000-0000-000000000000"
ZEROS = "00000000-0000-0000-0000-000000000000"


def machine(*, channels: int = 0, runs: bool = False, nodes: bool = False) -> MemoryFiles:
    """Return a machine whose driver knows IMEX."""
    files = MemoryFiles()
    files.content[Path("/proc/devices")] = (FIXTURES / "proc-devices.txt").read_bytes()
    for pid, name in ((1, "systemd"), (77, "nvidia-imex" if runs else "nvidia-persiste")):
        files.content[Path(f"/proc/{pid}/comm")] = f"{name}\n".encode()
    for channel in range(channels):
        files.content[Path(f"/dev/nvidia-caps-imex-channels/channel{channel}")] = b""
    if nodes:
        config = (FIXTURES / "nodes_config.cfg").read_bytes()
        files.content[Path("/etc/nvidia-imex/nodes_config.cfg")] = config
    return files


def cards(*fabrics: NvlinkFabric | None) -> Inventory:
    return Inventory(
        devices=tuple(Device(uuid=f"GPU-{n}", nvlink=one) for n, one in enumerate(fabrics))
    )


def in_domain(clique: int = 4000000004) -> NvlinkFabric:
    return NvlinkFabric(state="Completed", status="Success", cluster_uuid=CLUSTER, clique_id=clique)


async def test_a_domain_with_imex_and_its_channels(clock: FakeClock):
    probe = ImexProbe(machine(channels=12, runs=True, nodes=True), clock)
    assert await probe.read() == "nvidia-imex runs, 12 channels"
    found = probe.onto_inventory(cards(in_domain(), in_domain())).nvlink_domain
    assert found == NvlinkDomain(
        cluster_uuid=CLUSTER,
        clique_id=4000000004,
        imex_running=True,
        imex_channels=(
            *("channel0", "channel1", "channel2", "channel3", "channel4", "channel5"),
            *("channel6", "channel7", "channel8", "channel9", "channel10", "channel11"),
        ),
    )


async def test_a_domain_whose_imex_does_not_run_says_so(clock: FakeClock):
    probe = ImexProbe(machine(), clock)
    assert await probe.read() == "no sign of nvidia-imex"
    found = probe.onto_inventory(cards(in_domain())).nvlink_domain
    assert found is not None
    assert (found.imex_running, found.imex_channels) == (False, ())


async def test_a_single_machines_switch_is_no_domain(clock: FakeClock):
    probe = ImexProbe(machine(), clock)
    await probe.read()
    alone = NvlinkFabric(state="Completed", status="Success", cluster_uuid=ZEROS, clique_id=0)
    assert probe.onto_inventory(cards(alone, None)).nvlink_domain is None


async def test_a_machine_without_the_driver_is_quiet(clock: FakeClock):
    files = MemoryFiles()
    probe = ImexProbe(files, clock)
    assert await probe.read() == "no NVIDIA driver is loaded"
    files.content[Path("/proc/devices")] = b"Character devices:\n  1 mem\n"
    assert await probe.read() == "no NVIDIA driver is loaded"
    assert (probe.period, probe.age) == (SELDOM, None)
    assert probe.onto_inventory(Inventory()).nvlink_domain is None


async def test_an_older_driver_has_no_channels_and_processes_are_not_searched(clock: FakeClock):
    files = machine(channels=1, runs=True)
    files.content[Path("/proc/devices")] = b"195 nvidia\n"
    probe = ImexProbe(files, clock)
    assert await probe.read() == "no sign of nvidia-imex"


async def test_imex_that_ends_and_comes_back_under_another_pid(clock: FakeClock):
    files = machine(channels=1, runs=True)
    probe = ImexProbe(files, clock)
    assert await probe.read() == "nvidia-imex runs, 1 channel"
    assert probe.period == OFTEN
    files.content[Path("/proc/77/comm")] = b"python3\n"
    assert await probe.read() == "nvidia-imex does not run, 1 channel"
    files.content[Path("/proc/99/comm")] = b"nvidia-imex\n"
    assert await probe.read() == "nvidia-imex runs, 1 channel"


async def test_imex_is_found_among_thousands(clock: FakeClock):
    files = machine()
    for pid in range(1000, 1900):
        files.content[Path(f"/proc/{pid}/comm")] = b"nvidia-imex\n" if pid == 1899 else b"sh\n"
    probe = ImexProbe(files, clock)
    assert await probe.read() == "nvidia-imex runs, 0 channels"


async def test_a_domain_that_is_over_is_taken_back_in_words(clock: FakeClock):
    files = machine(channels=1, runs=True)
    probe = ImexProbe(files, clock)
    await probe.read()
    assert probe.onto_inventory(cards(in_domain())).nvlink_domain is not None
    files.content.clear()
    await probe.read()
    assert probe.onto_inventory(cards(None)).nvlink_domain == NvlinkDomain(
        imex_running=False, imex_channels=()
    )


async def test_a_look_older_than_a_minute_is_not_repeated(clock: FakeClock):
    probe = ImexProbe(machine(channels=1, runs=True), clock)
    await probe.read()
    probe.onto_inventory(cards(in_domain()))
    await clock.advance(61)
    assert probe.onto_inventory(cards(in_domain())).nvlink_domain == NvlinkDomain(
        cluster_uuid=CLUSTER, clique_id=4000000004
    )


async def test_a_configuration_that_is_garbled_is_a_failure(clock: FakeClock):
    files = machine(runs=True)
    files.content[Path("/etc/nvidia-imex/nodes_config.cfg")] = b"two words\n"
    with pytest.raises(Unreadable, match="two words"):
        await ImexProbe(files, clock).read()


def test_cards_of_two_clusters_are_of_none_and_of_two_cliques_of_no_clique():
    other = NvlinkFabric(cluster_uuid="50000000-0000-0000-0000-000000000005", clique_id=1)
    assert domain_of(cards(in_domain(), other)) == (None, None)
    assert domain_of(cards(in_domain(1), in_domain(2))) == (CLUSTER, None)
    assert domain_of(cards(None)) == (None, None)
    assert domain_of(Inventory()) == (None, None)
