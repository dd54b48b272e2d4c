"""saquery: the subnet managers of a fabric, and the ports that one can run on."""

from pathlib import Path

import pytest

from llmgw.base.errors import Unreadable
from llmgw.model.fabric import SubnetManager
from llmgw_agent.parse.saquery import TOOLS, SmPort, read_managers, read_sm_ports
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures" / "saquery"


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def test_a_master_and_its_standby():
    assert read_managers(text("SMIR-two-sms.txt")) == (
        # LID...................1
        # GUID..................0xb8cef60300100001
        # Priority..............8
        # SMState...............3
        SubnetManager(guid="0xb8cef60300100001", lid=1, priority=8, state="master"),
        # LID...................14
        # GUID..................0xb8cef60300100081
        # Priority..............3
        # SMState...............2
        SubnetManager(guid="0xb8cef60300100081", lid=14, priority=3, state="standby"),
    )


def test_another_fabric_with_two_managers():
    assert read_managers(text("SMIR-two-sms-short.txt")) == (
        # LID...................23
        # GUID..................0x0000000000100001
        # Priority..............8
        # SMState...............3
        SubnetManager(guid="0x0000000000100001", lid=23, priority=8, state="master"),
        # LID...................25
        # GUID..................0x0000000000100003
        # Priority..............3
        # SMState...............2
        SubnetManager(guid="0x0000000000100003", lid=25, priority=3, state="standby"),
    )


def test_ports_that_a_manager_can_run_on():
    assert read_sm_ports(text("s-issm-ports.txt")) == (
        # IsSM ports
        # PortNum.................1
        # base_lid................1
        # master_sm_base_lid......1
        SmPort(lid=1, number=1, master_lid=1, disabled=False),
        # PortNum.................1
        # base_lid................14
        # master_sm_base_lid......1
        SmPort(lid=14, number=1, master_lid=1, disabled=False),
    )


def test_ports_whose_manager_is_kept_from_being_master_are_told_apart():
    section = "PortInfoRecord dump:\n\t\tPortNum.................1\n\t\tbase_lid................7\n"
    found = read_sm_ports(f"IsSM ports\n\nIsSMdisabled ports\n{section}")
    assert found == (SmPort(lid=7, number=1, disabled=True),)


def test_a_machine_without_an_adapter_has_no_managers():
    # ibwarn: [123] sa_get_handle: No SM/SA found on port (null):0
    assert read_managers(text("no-device.txt")) == ()


def test_an_administrator_that_does_not_answer_is_an_error():
    with pytest.raises(Unreadable, match="'Query SA failed: Connection timed out'"):
        read_managers("Query SA failed: Connection timed out\n")


def test_a_manager_without_its_guid_costs_itself():
    cut = text("SMIR-two-sms.txt").replace("GUID..................0xb8cef60300100081\n", "\n")
    assert [manager.lid for manager in read_managers(cut)] == [1]


def test_the_tool_tells_the_two_queries_apart():
    read = only(TOOLS).read
    assert read(text("s-issm-ports.txt")) == read_sm_ports(text("s-issm-ports.txt"))
    assert read(text("SMIR-two-sms.txt")) == read_managers(text("SMIR-two-sms.txt"))
