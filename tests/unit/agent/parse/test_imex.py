"""The two files of nvidia-imex; the lines are quoted beside."""

from pathlib import Path

import pytest

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.imex import NvidiaDevices, read_devices, read_nodes

FIXTURES = Path(__file__).parents[3] / "fixtures" / "imex"


def test_a_configuration_of_four_nodes():
    # 172.27.58.70, .71, .72 and .73, one a line
    assert read_nodes((FIXTURES / "nodes_config.cfg").read_text()) == (
        *("172.27.58.70", "172.27.58.71", "172.27.58.72", "172.27.58.73"),
    )


def test_comments_and_empty_lines_are_no_nodes():
    assert read_nodes("# nodes\n\n10.0.0.1  # first\nfd00::2\n") == ("10.0.0.1", "fd00::2")
    assert read_nodes("") == ()


def test_what_is_no_address_is_refused():
    with pytest.raises(Unreadable, match="two words"):
        read_nodes("10.0.0.1\ntwo words\n")


def test_the_major_number_of_imex_channels():
    # 195 nvidia / 195 nvidiactl / 234 nvidia-caps-imex-channels / 509 nvidia-nvswitch
    devices = read_devices((FIXTURES / "proc-devices.txt").read_text())
    assert devices == NvidiaDevices(driver=True, imex_major=234)


def test_a_driver_without_channels_and_a_machine_without_driver():
    whole = "Character devices:\n  1 mem\n195 nvidia\n\nBlock devices:\n254 virtblk\n"
    assert read_devices(whole) == NvidiaDevices(driver=True)
    assert read_devices("Character devices:\n  1 mem\n") == NvidiaDevices()
    assert read_devices("") == NvidiaDevices()
    with pytest.raises(Unreadable, match="no devices here"):
        read_devices("no devices here\n")
