"""Ports of adapters: from sysfs through a helper, from ibstat where there is none."""

import asyncio
from pathlib import Path

import pytest

from llmgw.base.errors import LlmgwError, NotFound, Unreadable
from llmgw.base.world import Done
from llmgw.model.fabric import Port
from llmgw.model.node import Heartbeat, Inventory
from llmgw_agent.host.tree import Tree, TreeOf, read_live
from llmgw_agent.parse.tree import read_tree
from llmgw_agent.probe.ports import ROOT, PortsProbe
from tests.fakes.clock import FakeClock, settle
from tests.fakes.helper import FakeHelper, silent
from tests.fakes.machine import FakeProcesses, MemoryFiles
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures"
H100 = FIXTURES / "sys-class-infiniband" / "h100-mlx5.tsv"


class Machine:
    """A machine in memory whose sysfs helpers read; the adapters in `hanging` never answer."""

    def __init__(self, clock: FakeClock) -> None:
        self.files = MemoryFiles()
        self.processes = FakeProcesses(self.files)
        self.hanging: set[str] = set()
        self.helpers: list[FakeHelper] = []
        self.probe = PortsProbe(self.files, self.processes, self.new_helper, clock)
        self.processes.on_run = lambda argv: NotFound(f"{argv[0]}: no such program")

    def new_helper(self) -> FakeHelper:
        self.helpers.append(FakeHelper(self.answer))
        return self.helpers[-1]

    def answer(self, request: TreeOf) -> Tree | LlmgwError:
        root = Path(request.root)
        if root.name in self.hanging:
            return silent(request)
        return Tree(files=dict(read_live(self.files, root, request.wanted)))

    def put(self, path: str, text: str) -> None:
        self.files.content[ROOT / path] = f"{text}\n".encode()

    def put_fixture(self, *, every_counter: bool = False) -> None:
        for path, text in read_tree(H100.read_text()).items():
            if every_counter or "counters/" not in path or path.endswith("/port_rcv_errors"):
                self.put(path, text)

    def say(self, out: str, rc: int = 0, err: str = "") -> None:
        """Let ibstat print something."""
        self.processes.on_run = lambda argv: Done(rc, out, err)

    def asked(self, name: str) -> list[tuple[str, ...]]:
        """Return what was wanted of an adapter, request by request."""
        requests = [one for helper in self.helpers for one in helper.asked]
        return [
            one.wanted for one in requests if isinstance(one, TreeOf) and one.root.endswith(name)
        ]


@pytest.fixture
def machine(clock: FakeClock) -> Machine:
    return Machine(clock)


def beat(probe: PortsProbe) -> tuple[Port, ...] | None:
    return probe.onto_heartbeat(Heartbeat(sequence=1)).ports


def has(probe: PortsProbe) -> tuple[Port, ...] | None:
    return probe.onto_inventory(Inventory()).ports


async def failure_of(probe: PortsProbe) -> str:
    with pytest.raises(Unreadable) as raised:
        await probe.read()
    return raised.value.message


async def test_ports_come_from_sysfs_with_their_counters(machine: Machine):
    machine.put_fixture(every_counter=True)
    assert await machine.probe.read() == "3 ports, all active"
    ports = beat(machine.probe) or ()
    assert [(port.adapter, port.rate) for port in ports] == [
        ("mlx5_0", 400_000_000_000),
        ("mlx5_1", 400_000_000_000),
        ("mlx5_bond_0", 200_000_000_000),
    ]
    assert all(len(port.counters or ()) == 46 for port in ports)
    assert machine.probe.period == 5.0


async def test_an_inventory_has_no_counters(machine: Machine):
    machine.put_fixture()
    await machine.probe.read()
    before = has(machine.probe)
    machine.put("mlx5_0/ports/1/counters/port_rcv_errors", "15")
    await machine.probe.read()
    assert has(machine.probe) == before
    assert all(port.counters is None for port in before or ())


async def test_a_port_that_goes_down_is_told_with_the_next_reading(machine: Machine):
    machine.put_fixture()
    await machine.probe.read()
    machine.put("mlx5_1/ports/1/state", "1: DOWN")
    machine.put("mlx5_1/ports/1/phys_state", "2: Polling")
    assert await machine.probe.read() == "3 ports, not active: mlx5_1/1"
    down = next(port for port in has(machine.probe) or () if port.adapter == "mlx5_1")
    assert (down.state, down.physical_state, down.rate) == ("DOWN", "Polling", None)


async def test_what_an_adapter_is_is_read_once_a_minute(machine: Machine, clock: FakeClock):
    machine.put("mlx5_0/node_guid", "946d:ae03:6393:5a2c")
    machine.put("mlx5_0/ports/1/state", "4: ACTIVE")
    for _ in range(13):
        await machine.probe.read()
        assert only(beat(machine.probe)).node_guid == "0x946dae0363935a2c"
        await clock.advance(5)
    asked = machine.asked("mlx5_0")
    assert ["node_guid" in wanted for wanted in asked] == [True, *[False] * 12]
    await machine.probe.read()
    assert "node_guid" in machine.asked("mlx5_0")[-1]


async def test_an_address_given_to_a_port_that_came_up_is_seen_at_once(machine: Machine):
    machine.files.content[Path("/proc/net/route")] = (
        b"Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        b"ens1\t0000010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"
    )
    machine.put("mlx5_0/ports/1/link_layer", "Ethernet")
    machine.put("mlx5_0/ports/1/state", "1: DOWN")
    await machine.probe.read()
    assert only(beat(machine.probe)).network is None
    machine.put("mlx5_0/ports/1/state", "4: ACTIVE")
    machine.put("mlx5_0/ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:0a01:0007")
    machine.put("mlx5_0/ports/1/gid_attrs/types/0", "RoCE v2")
    machine.put("mlx5_0/ports/1/gid_attrs/ndevs/0", "ens1")
    await machine.probe.read()
    await machine.probe.read()
    port = only(beat(machine.probe))
    assert (port.interface, port.network) == ("ens1", "10.1.0.0/24")


async def test_a_file_that_vanishes_is_not_repeated_from_an_older_reading(machine: Machine):
    machine.put_fixture()
    await machine.probe.read()
    del machine.files.content[ROOT / "mlx5_0/ports/1/rate"]
    await machine.probe.read()
    assert (beat(machine.probe) or ())[0].rate is None


async def test_an_adapter_that_hangs_costs_itself_and_gets_a_helper_of_its_own(
    machine: Machine, clock: FakeClock
):
    machine.put_fixture()
    await machine.probe.read()
    machine.hanging = {"mlx5_0"}
    assert await failure_of(machine.probe) == "mlx5_0: helper: no answer within 5 s"
    await clock.advance(40)
    assert await failure_of(machine.probe) == "mlx5_0: helper: no answer within 5 s"
    assert len(machine.helpers) == 2
    states = {port.adapter: port.state for port in beat(machine.probe) or ()}
    assert states == {"mlx5_0": "ACTIVE", "mlx5_1": "ACTIVE", "mlx5_bond_0": "ACTIVE"}
    await clock.advance(21)
    assert await failure_of(machine.probe)
    # A minute old: that it is there is still known, how it is is not.
    ports = beat(machine.probe) or ()
    assert ports[0] == Port(adapter="mlx5_0", number=1, link_layer="InfiniBand")
    assert ports[1].state == "ACTIVE"


async def test_an_adapter_that_answers_again_shares_the_helper_again(machine: Machine):
    machine.put_fixture()
    machine.hanging = {"mlx5_0"}
    assert await failure_of(machine.probe)
    machine.hanging = set()
    assert await machine.probe.read() == "3 ports, all active"
    assert [helper.closed for helper in machine.helpers] == [False, True]
    await machine.probe.close()
    assert machine.helpers[0].closed


async def test_ports_are_not_known_while_no_adapter_answered(machine: Machine):
    assert beat(machine.probe) is None
    machine.put_fixture()
    machine.hanging = {"mlx5_0", "mlx5_1", "mlx5_bond_0"}
    assert await failure_of(machine.probe)
    assert beat(machine.probe) is None
    assert machine.probe.age is None


async def test_an_adapter_that_is_pulled_out_is_gone(machine: Machine):
    machine.put_fixture()
    await machine.probe.read()
    machine.files.remove(ROOT / "mlx5_bond_0")
    assert await machine.probe.read() == "2 ports, all active"


async def test_a_machine_without_ports_is_quiet_and_asked_once_a_minute(machine: Machine):
    assert await machine.probe.read() == "no InfiniBand or RoCE ports"
    assert machine.probe.period == 60.0
    assert beat(machine.probe) == ()
    assert machine.helpers[0].asked == []


async def test_ibstat_tells_where_there_is_no_sysfs(machine: Machine):
    machine.say((FIXTURES / "ibstat" / "h100-3-down-disabled.txt").read_text())
    assert await machine.probe.read() == (
        "12 ports, not active: mlx5_2/1, mlx5_7/1, mlx5_8/1, told by ibstat"
    )
    # Sorted as people count, though ibstat tells mlx5_10 before mlx5_2.
    assert [port.adapter for port in beat(machine.probe) or ()] == [f"mlx5_{n}" for n in range(12)]
    assert machine.probe.period == 5.0


async def test_adapters_before_ibstats_panic_count_and_the_panic_is_told(machine: Machine):
    machine.say((FIXTURES / "ibstat" / "a100-ibpanic-exit255.txt").read_text(), rc=255)
    sentence = await machine.probe.read()
    assert sentence.startswith("8 ports, all active, told by ibstat: [1400444] main: stat of")
    assert len(beat(machine.probe) or ()) == 8


async def test_an_ibstat_that_prints_nothing_means_no_ports(machine: Machine):
    machine.say("")
    assert await machine.probe.read() == "no InfiniBand or RoCE ports"
    assert machine.probe.period == 60.0


async def test_a_sysfs_that_may_not_be_listed_leaves_ibstat(machine: Machine, monkeypatch):
    def refuse(path: Path) -> tuple[str, ...]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(machine.files, "names", refuse)
    machine.say((FIXTURES / "ibstat" / "sim-active.txt").read_text())
    assert await machine.probe.read() == "1 port, all active, told by ibstat"


async def test_who_waits_for_the_ports_gets_them_after_the_first_reading(machine: Machine):
    machine.put_fixture()
    waiting = asyncio.ensure_future(machine.probe.known())
    await settle()
    assert not waiting.done()
    await machine.probe.read()
    assert len(await waiting) == 3
