"""sminfo: the subnet manager that a port was told of."""

from pathlib import Path

import pytest

from llmgw.base.errors import Unreadable
from llmgw.model.fabric import SubnetManager
from llmgw_agent.parse.sminfo import read_sminfo

FIXTURES = Path(__file__).parents[3] / "fixtures" / "sminfo"


def test_a_master_has_guid_lid_priority_and_state():
    # sminfo: sm lid 1 sm guid 0xb8cef60300100001, activity count 1031 priority 8 state 3
    # SMINFO_MASTER
    assert read_sminfo((FIXTURES / "master.txt").read_text()) == SubnetManager(
        guid="0xb8cef60300100001", lid=1, priority=8, state="master"
    )


def test_a_fabric_without_a_manager_is_none():
    # sminfo: iberror: failed: query
    assert read_sminfo((FIXTURES / "no-sm.txt").read_text()) is None


def test_a_guid_without_leading_zeros_is_the_one_with_them():
    line = "sminfo: sm lid 3 sm guid 0x100003, activity count 144 priority 3 state 2 SMINFO_STANDBY"
    found = read_sminfo(line)
    assert found is not None
    assert (found.guid, found.state) == ("0x0000000000100003", "standby")


def test_an_adapter_that_cant_be_opened_is_no_fabric_without_a_manager():
    text = (
        "sminfo: iberror: failed: Failed to open 'mlx5_0' port '1'\n"
        "ibwarn: [869] mad_rpc_open_port: can't open UMAD port (mlx5_0:1)\n"
    )
    with pytest.raises(Unreadable, match="Failed to open 'mlx5_0' port '1'"):
        read_sminfo(text)
    with pytest.raises(Unreadable):
        read_sminfo("")


def test_what_is_cut_off_is_none():
    found = read_sminfo("sminfo: sm lid 1 sm guid 0xb8cef60300100001, activity cou")
    assert found == SubnetManager(guid="0xb8cef60300100001", lid=1)
