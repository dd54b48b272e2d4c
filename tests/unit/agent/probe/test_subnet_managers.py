"""Masters that ports see and managers of their fabrics, from tools that answer, refuse or hang."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from llmgw.base.errors import LlmgwError, NotFound, TimedOut, Unreadable
from llmgw.base.world import Done
from llmgw.model.fabric import SubnetManager
from llmgw.model.node import Heartbeat, Inventory
from llmgw_agent.host.tree import Tree, TreeOf, read_live
from llmgw_agent.probe.ports import ROOT, PortsProbe
from llmgw_agent.probe.subnet_managers import SubnetManagersProbe
from tests.fakes.clock import FakeClock
from tests.fakes.helper import FakeHelper
from tests.fakes.machine import FakeProcesses, MemoryFiles

FIXTURES = Path(__file__).parents[3] / "fixtures"
NO_SM = Done(255, "sminfo: iberror: failed: query\n", "ibwarn: [1] mad_rpc: _do_madrpc failed\n")
MASTER = "0xb8cef60300100001"
OTHER = "0x0000000000100001"


def sminfo(guid: str, state: str = "3 SMINFO_MASTER") -> Done:
    line = f"sminfo: sm lid 1 sm guid {guid}, activity count 7 priority 8 state {state}\n"
    return Done(0, line, "")


def smir(name: str = "SMIR-two-sms.txt") -> Done:
    return Done(0, (FIXTURES / "saquery" / name).read_text(), "")


class Fabric:
    """A node with two InfiniBand ports and one of RoCE, and what the tools say through each."""

    def __init__(self, clock: FakeClock) -> None:
        self.files = MemoryFiles()
        self.processes = FakeProcesses(self.files)
        self.processes.on_run = self.run
        self.sminfo: dict[str, Done | LlmgwError] = {}
        self.saquery: dict[str, Done | LlmgwError] = {}
        self.ports = PortsProbe(self.files, self.processes, lambda: FakeHelper(self.answer), clock)
        self.probe = SubnetManagersProbe(self.processes, self.ports, clock)
        for adapter, layer, lid in (
            ("mlx5_0", "InfiniBand", "0x1"),
            ("mlx5_1", "InfiniBand", "0x5"),
            ("mlx5_2", "Ethernet", "0x0"),
        ):
            self.put(f"{adapter}/ports/1/link_layer", layer)
            self.put(f"{adapter}/ports/1/state", "4: ACTIVE")
            self.put(f"{adapter}/ports/1/lid", lid)

    def put(self, path: str, text: str) -> None:
        self.files.content[ROOT / path] = text.encode()

    def answer(self, request: TreeOf) -> Tree:
        return Tree(files=dict(read_live(self.files, Path(request.root), request.wanted)))

    def run(self, argv: Sequence[str]) -> Done | LlmgwError:
        tool, adapter = argv[0], argv[2]
        assert argv[1::2][:2] == ("-C", "-P")
        answers = self.sminfo if tool == "sminfo" else self.saquery
        return answers.get(adapter, NotFound(f"{tool}: no such program"))

    async def read(self) -> str:
        await self.ports.read()
        return await self.probe.read()

    def masters(self) -> dict[str, str | None]:
        """Return the master of each port as a heartbeat tells it."""
        heartbeat = self.probe.onto_heartbeat(self.ports.onto_heartbeat(Heartbeat(sequence=1)))
        told = {port.adapter: port.master_guid for port in heartbeat.ports or ()}
        assert told == {port.adapter: port.master_guid for port in self.inventory().ports or ()}
        return told

    def inventory(self) -> Inventory:
        return self.probe.onto_inventory(self.ports.onto_inventory(Inventory()))

    def asked(self, tool: str) -> list[str]:
        """Return the adapters that a tool was run on."""
        return [argv[2] for argv in self.processes.ran if argv[0] == tool]


@pytest.fixture
def fabric(clock: FakeClock) -> Fabric:
    return Fabric(clock)


async def failure_of(fabric: Fabric) -> str:
    with pytest.raises(Unreadable) as raised:
        await fabric.read()
    return raised.value.message


async def test_each_infiniband_port_is_asked_and_each_fabric_once(fabric: Fabric):
    fabric.sminfo = {"mlx5_0": sminfo(MASTER), "mlx5_1": sminfo(MASTER)}
    fabric.saquery = {"mlx5_0": smir()}
    assert await fabric.read() == f"master {MASTER} (mlx5_0/1, mlx5_1/1), managers: 2"
    assert fabric.masters() == {"mlx5_0": MASTER, "mlx5_1": MASTER, "mlx5_2": None}
    assert fabric.inventory().subnet_managers == (
        SubnetManager(
            guid=MASTER, lid=1, priority=8, state="master", adapter="mlx5_0/1", master_guid=MASTER
        ),
        SubnetManager(
            guid="0xb8cef60300100081",
            lid=14,
            priority=3,
            state="standby",
            adapter="mlx5_0/1",
            master_guid=MASTER,
        ),
    )
    assert sorted(fabric.asked("sminfo")) == ["mlx5_0", "mlx5_1"]
    assert fabric.asked("saquery") == ["mlx5_0"]


async def test_two_fabrics_are_asked_through_a_port_of_each(fabric: Fabric):
    fabric.sminfo = {"mlx5_0": sminfo(MASTER), "mlx5_1": sminfo("0x100001")}
    fabric.saquery = {"mlx5_0": smir(), "mlx5_1": smir("SMIR-two-sms-short.txt")}
    await fabric.read()
    assert fabric.masters() == {"mlx5_0": MASTER, "mlx5_1": OTHER, "mlx5_2": None}
    seen = [(m.guid, m.adapter, m.master_guid) for m in fabric.inventory().subnet_managers or ()]
    assert seen == [
        (MASTER, "mlx5_0/1", MASTER),
        ("0xb8cef60300100081", "mlx5_0/1", MASTER),
        (OTHER, "mlx5_1/1", OTHER),
        ("0x0000000000100003", "mlx5_1/1", OTHER),
    ]


async def test_a_fabric_without_a_manager_is_no_error(fabric: Fabric):
    fabric.sminfo = {"mlx5_0": NO_SM, "mlx5_1": NO_SM}
    assert await fabric.read() == (
        "no subnet manager answers mlx5_0/1; no subnet manager answers mlx5_1/1"
    )
    assert fabric.masters() == {"mlx5_0": None, "mlx5_1": None, "mlx5_2": None}
    assert fabric.inventory().subnet_managers == ()
    assert fabric.asked("saquery") == []


async def test_a_master_that_is_gone_is_forgotten_at_once(fabric: Fabric):
    fabric.sminfo = {"mlx5_0": sminfo(MASTER), "mlx5_1": sminfo(MASTER)}
    fabric.saquery = {"mlx5_0": smir()}
    await fabric.read()
    fabric.sminfo = {"mlx5_0": NO_SM, "mlx5_1": NO_SM}
    await fabric.read()
    assert set(fabric.masters().values()) == {None}
    assert fabric.inventory().subnet_managers == ()


async def test_a_manager_that_is_not_master_yet_is_no_ports_master(fabric: Fabric):
    fabric.sminfo = {"mlx5_0": sminfo(MASTER, "2 SMINFO_STANDBY"), "mlx5_1": sminfo(MASTER)}
    fabric.saquery = {"mlx5_1": smir()}
    await fabric.read()
    assert fabric.masters() == {"mlx5_0": None, "mlx5_1": MASTER, "mlx5_2": None}


async def test_a_port_that_hangs_costs_itself_and_keeps_its_master_for_a_minute(
    fabric: Fabric, clock: FakeClock
):
    fabric.sminfo = {"mlx5_0": sminfo(MASTER), "mlx5_1": sminfo(MASTER)}
    fabric.saquery = {"mlx5_0": smir(), "mlx5_1": smir()}
    await fabric.read()
    fabric.sminfo["mlx5_0"] = TimedOut("sminfo: no end within 4 s")
    await clock.advance(45)
    assert await failure_of(fabric) == "mlx5_0/1: sminfo: no end within 4 s"
    assert fabric.masters() == {"mlx5_0": MASTER, "mlx5_1": MASTER, "mlx5_2": None}
    await clock.advance(16)
    await fabric.ports.read()
    assert fabric.masters() == {"mlx5_0": None, "mlx5_1": MASTER, "mlx5_2": None}


async def test_a_reading_each_period_never_lets_a_master_lapse(fabric: Fabric, clock: FakeClock):
    fabric.sminfo = {"mlx5_0": sminfo(MASTER), "mlx5_1": sminfo(MASTER)}
    fabric.saquery = {"mlx5_0": smir()}
    await fabric.read()
    # The longest that a pass takes: sminfo and saquery each to their timeouts, once before and
    # sminfo once after the pause.
    await clock.advance(4 + fabric.probe.period + 4)
    await fabric.ports.read()
    assert fabric.masters() == {"mlx5_0": MASTER, "mlx5_1": MASTER, "mlx5_2": None}


async def test_a_port_that_is_down_has_no_master_though_it_had_one(fabric: Fabric):
    fabric.sminfo = {"mlx5_0": sminfo(MASTER), "mlx5_1": sminfo(MASTER)}
    fabric.saquery = {"mlx5_0": smir()}
    await fabric.read()
    fabric.put("mlx5_1/ports/1/state", "1: DOWN")
    await fabric.ports.read()
    assert fabric.masters() == {"mlx5_0": MASTER, "mlx5_1": None, "mlx5_2": None}
    fabric.put("mlx5_1/ports/1/state", "4: ACTIVE")
    await fabric.ports.read()
    assert fabric.masters()["mlx5_1"] == MASTER


async def test_after_a_failed_query_the_next_port_of_the_fabric_is_taken(fabric: Fabric):
    fabric.sminfo = {"mlx5_0": sminfo(MASTER), "mlx5_1": sminfo(MASTER)}
    fabric.saquery = {
        "mlx5_0": Done(110, "", "Query SA failed: Connection timed out\n"),
        "mlx5_1": smir(),
    }
    words = "mlx5_0/1: saquery: 'Query SA failed: Connection timed out' tells of no subnet manager"
    assert await failure_of(fabric) == words
    assert fabric.masters()["mlx5_0"] == MASTER
    await fabric.read()
    assert fabric.asked("saquery") == ["mlx5_0", "mlx5_1"]
    managers = fabric.inventory().subnet_managers or ()
    assert {manager.adapter for manager in managers} == {"mlx5_1/1"}


async def test_an_adapter_that_may_not_be_opened_is_an_error_in_words(fabric: Fabric):
    refused = Done(255, "sminfo: iberror: failed: Failed to open 'mlx5_0' port '1'\n", "")
    fabric.sminfo = {"mlx5_0": refused, "mlx5_1": sminfo(MASTER)}
    fabric.saquery = {"mlx5_1": smir()}
    assert "Failed to open 'mlx5_0' port '1'" in await failure_of(fabric)
    assert fabric.masters() == {"mlx5_0": None, "mlx5_1": MASTER, "mlx5_2": None}


async def test_without_the_tools_it_says_so_and_is_no_error(fabric: Fabric):
    assert await fabric.read() == (
        "sminfo is not installed: whose fabric the ports are on is not known"
    )
    assert fabric.inventory().subnet_managers is None
    assert set(fabric.masters().values()) == {None}


async def test_without_an_infiniband_port_nothing_is_run(fabric: Fabric):
    for adapter in ("mlx5_0", "mlx5_1"):
        fabric.put(f"{adapter}/ports/1/state", "1: DOWN")
    assert await fabric.read() == "no active InfiniBand port"
    assert fabric.processes.ran == []
    assert fabric.probe.period == 60.0
    assert fabric.inventory().subnet_managers == ()


async def test_managers_that_nobody_told_of_for_a_minute_are_told_no_more_and_it_says_so(
    fabric: Fabric, clock: FakeClock
):
    fabric.sminfo = {"mlx5_0": sminfo(MASTER), "mlx5_1": sminfo(MASTER)}
    fabric.saquery = {"mlx5_0": smir()}
    await fabric.read()
    fabric.saquery = {adapter: TimedOut("saquery: no end") for adapter in ("mlx5_0", "mlx5_1")}
    await clock.advance(45)
    await failure_of(fabric)
    assert len(fabric.inventory().subnet_managers or ()) == 2
    assert fabric.inventory().warnings is None
    await clock.advance(16)
    await failure_of(fabric)
    told = fabric.inventory()
    assert (told.subnet_managers, fabric.masters()["mlx5_0"]) == ((), MASTER)
    assert [warning.words for warning in told.warnings or ()] == [
        f"the other managers of the fabric of master {MASTER} are not known any more: saquery fails"
    ]


async def test_when_neither_tool_answers_for_a_minute_nothing_is_known_and_it_says_so(
    fabric: Fabric, clock: FakeClock
):
    fabric.sminfo = {"mlx5_0": sminfo(MASTER), "mlx5_1": sminfo(MASTER)}
    fabric.saquery = {"mlx5_0": smir()}
    await fabric.read()
    fabric.sminfo = {adapter: TimedOut("sminfo: no end") for adapter in ("mlx5_0", "mlx5_1")}
    await clock.advance(61)
    await failure_of(fabric)
    told = fabric.inventory()
    assert (told.subnet_managers, set(fabric.masters().values())) == ((), {None})
    assert [warning.words for warning in told.warnings or ()] == [
        f"the master that mlx5_{number}/1 sees is not known any more: sminfo fails"
        for number in (0, 1)
    ]


async def test_tools_that_vanish_after_they_answered_are_an_error(fabric: Fabric):
    fabric.sminfo = {"mlx5_0": sminfo(MASTER), "mlx5_1": sminfo(MASTER)}
    fabric.saquery = {"mlx5_0": smir()}
    await fabric.read()
    fabric.sminfo = {}
    with pytest.raises(LlmgwError, match="mlx5_0/1: sminfo: no such program"):
        await fabric.read()


async def test_which_port_was_asked_last_is_forgotten_with_its_fabric(fabric: Fabric):
    for number in range(1, 6):
        fabric.sminfo = {"mlx5_0": sminfo(f"0x{number:016x}")}
        with pytest.raises(Unreadable):
            await fabric.read()
    assert [*fabric.probe._turns] == ["0x0000000000000005"]


async def test_a_port_whose_lid_can_not_be_read_is_asked_all_the_same(fabric: Fabric):
    del fabric.files.content[ROOT / "mlx5_1/ports/1/lid"]
    fabric.sminfo = {"mlx5_0": sminfo(MASTER), "mlx5_1": sminfo(MASTER)}
    fabric.saquery = {"mlx5_0": smir()}
    assert await fabric.read() == f"master {MASTER} (mlx5_0/1, mlx5_1/1), managers: 2"
    assert fabric.masters()["mlx5_1"] == MASTER


async def test_a_port_of_which_nothing_tells_whether_it_is_on_a_fabric_is_named(fabric: Fabric):
    for adapter in ("mlx5_0", "mlx5_1"):
        del fabric.files.content[ROOT / f"{adapter}/ports/1/link_layer"]
    del fabric.files.content[ROOT / "mlx5_1/ports/1/lid"]
    fabric.sminfo = {"mlx5_0": sminfo(MASTER)}
    fabric.saquery = {"mlx5_0": smir()}
    unknown = "mlx5_1/1: neither its link layer nor its LID can be read"
    assert await fabric.read() == f"master {MASTER} (mlx5_0/1), managers: 2; {unknown}"
    fabric.put("mlx5_0/ports/1/state", "1: DOWN")
    assert await fabric.read() == f"no active InfiniBand port; {unknown}"
