"""Where cards sit, through a tool that answers, fails and prints half."""

import asyncio
from pathlib import Path

import pytest

from llmgw.base.errors import NotFound, TimedOut, Unreadable
from llmgw.base.world import Done
from llmgw.model.device import GPU, MIG, Device, NicDistance
from llmgw.model.node import Inventory
from llmgw_agent.probe.probing import Probing
from llmgw_agent.probe.smi import SELDOM, NvidiaSmi
from llmgw_agent.probe.topology import TopologyProbe
from tests.fakes.clock import FakeClock, settle
from tests.fakes.machine import FakeProcesses, MemoryFiles

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi-topo"


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


class Machine:
    def __init__(self, clock: FakeClock, answer: str) -> None:
        self.processes = FakeProcesses(MemoryFiles())
        self.answer(Done(0, answer, ""))
        self.probe = TopologyProbe(NvidiaSmi(self.processes, clock), clock)

    def answer(self, answer: Done | TimedOut | NotFound) -> None:
        self.processes.on_run = lambda argv: answer

    def devices(self, *devices: Device) -> tuple[Device, ...]:
        found = self.probe.onto_inventory(Inventory(devices=devices)).devices
        assert found is not None
        return found


def gpu(number: int, **known: object) -> Device:
    return Device(uuid=f"GPU-{number}", kind=GPU, number=number, **known)  # type: ignore[arg-type]


async def test_devices_learn_peers_numa_node_and_distances(clock: FakeClock):
    machine = Machine(clock, text("8x-a100-10nic-tabs-full.txt"))
    assert await machine.probe.read() == "8 cards, 10 network adapters"
    first, second = machine.devices(gpu(0), gpu(2))
    assert first.nvlink_peers == ("GPU-2",)
    assert (first.numa_node, second.numa_node) == (3, 1)
    assert first.adapters is not None
    assert first.adapters[:3] == (
        NicDistance(adapter="mlx5_0", distance="PXB"),
        NicDistance(adapter="mlx5_1", distance="PXB"),
        NicDistance(adapter="mlx5_2", distance="SYS"),
    )


async def test_what_the_driver_library_told_stays(clock: FakeClock):
    machine = Machine(clock, text("8x-h100-no-nic.txt"))
    await machine.probe.read()
    known = gpu(4, nvlink_peers=("GPU-9",), numa_node=0)
    found, _ = machine.devices(known, gpu(5))
    assert (found.nvlink_peers, found.numa_node, found.adapters) == (("GPU-9",), 0, ())


async def test_cards_without_nvlink_have_no_peers_and_an_unknown_numa_node(clock: FakeClock):
    machine = Machine(clock, text("2x-gpu-phb.txt"))
    await machine.probe.read()
    first, _ = machine.devices(gpu(0), gpu(1))
    assert (first.nvlink_peers, first.numa_node) == ((), None)


async def test_an_instance_sits_where_its_card_does_and_has_no_peers(clock: FakeClock):
    machine = Machine(clock, text("8x-a100-mlx5-named.txt"))
    await machine.probe.read()
    instance = Device(uuid="MIG-1", kind=MIG, number=1203, card_uuid="GPU-2")
    found, other = machine.devices(instance, gpu(3))
    assert (found.nvlink_peers, found.numa_node) == (None, 1)
    assert found.adapters == (NicDistance(adapter="mlx5_0", distance="PXB"),)
    assert other.nvlink_peers == ()


async def test_adapters_without_names_are_not_known(clock: FakeClock):
    machine = Machine(clock, text("4x-h100-nic-legend-oddcpus.txt"))
    await machine.probe.read()
    (device,) = machine.devices(gpu(1))
    assert (device.numa_node, device.adapters) == (1, None)


async def test_a_device_without_a_number_is_left_as_it_is(clock: FakeClock):
    machine = Machine(clock, text("2x-gpu-phb.txt"))
    await machine.probe.read()
    lost = Device(uuid="unreadable-card")
    assert machine.devices(lost) == (lost,)


async def test_the_matrix_stays_however_long_the_tool_hangs(clock: FakeClock):
    machine = Machine(clock, text("8x-h100-no-nic.txt"))
    assert machine.probe.period == SELDOM
    await machine.probe.read()
    assert machine.probe.period == 600
    machine.answer(TimedOut("nvidia-smi: no end within 15 s"))
    await clock.advance(600)
    with pytest.raises(TimedOut):
        await machine.probe.read()
    assert machine.devices(gpu(0))[0].numa_node == 0
    assert machine.probe.age == 600


@pytest.mark.parametrize("characters", [100, 700, 1200, 2000])
async def test_a_matrix_that_is_cut_is_not_taken(clock: FakeClock, characters: int):
    machine = Machine(clock, text("8x-a100-10nic-tabs-full.txt")[:characters])
    with pytest.raises(Unreadable):
        await machine.probe.read()
    assert machine.devices(gpu(0)) == (gpu(0),)


async def test_a_machine_without_the_tool_or_cards_is_quiet(clock: FakeClock):
    machine = Machine(clock, "")
    machine.answer(Done(6, "No devices were found\n", ""))
    assert await machine.probe.read() == "no NVIDIA cards"
    machine.answer(NotFound("nvidia-smi: no such program"))
    assert await machine.probe.read() == "nvidia-smi is not on this machine"
    assert machine.probe.period == SELDOM


async def test_a_tool_that_vanishes_is_a_failure(clock: FakeClock):
    machine = Machine(clock, text("2x-gpu-phb.txt"))
    await machine.probe.read()
    machine.answer(NotFound("nvidia-smi: no such program"))
    with pytest.raises(NotFound):
        await machine.probe.read()


async def test_a_tool_that_comes_back_is_noticed_within_half_a_minute(clock: FakeClock):
    machine = Machine(clock, text("2x-gpu-phb.txt"))
    probing = Probing(machine.probe, clock)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(probing.run())
        await settle()
        machine.answer(NotFound("nvidia-smi: no such program"))
        await clock.advance(600)
        assert probing.state().error == "nvidia-smi: no such program"
        machine.answer(Done(0, text("2x-gpu-phb.txt"), ""))
        await clock.advance(30)
        assert (probing.state().error, machine.probe.age) == (None, 10.0)
        running.cancel()
