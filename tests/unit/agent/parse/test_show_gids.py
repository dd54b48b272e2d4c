"""show_gids: tables of GIDs, and the one that RoCE v2 over IPv4 uses."""

from pathlib import Path

import pytest

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.gids import Gid, ipv4_of, roce_v2
from llmgw_agent.parse.show_gids import read_show_gids

FIXTURES = Path(__file__).parents[3] / "fixtures" / "show_gids"


@pytest.fixture
def gids() -> tuple[Gid, ...]:
    return read_show_gids((FIXTURES / "roce-6.txt").read_text())


def test_columns_that_move_where_no_ipv4_address_is_are_told_apart(gids: tuple[Gid, ...]):
    # The last line: n_gids_found=6
    assert len(gids) == 6
    assert {(gid.adapter, gid.number, gid.interface) for gid in gids} == {("mlx5_0", 1, "ens1f0")}
    assert [(gid.index, gid.gid, gid.address, gid.version) for gid in gids] == [
        # mlx5_0  1  0  fe80:0000:0000:0000:0e42:a1ff:fe5d:4db8                 v1  ens1f0
        (0, "fe80:0000:0000:0000:0e42:a1ff:fe5d:4db8", None, "v1"),
        # mlx5_0  1  1  fe80:0000:0000:0000:0e42:a1ff:fe5d:4db8                 v2  ens1f0
        (1, "fe80:0000:0000:0000:0e42:a1ff:fe5d:4db8", None, "v2"),
        # mlx5_0  1  2  fe80:0000:0000:0000:1186:a6b1:3f0b:c441                 v1  ens1f0
        (2, "fe80:0000:0000:0000:1186:a6b1:3f0b:c441", None, "v1"),
        # mlx5_0  1  3  fe80:0000:0000:0000:1186:a6b1:3f0b:c441                 v2  ens1f0
        (3, "fe80:0000:0000:0000:1186:a6b1:3f0b:c441", None, "v2"),
        # mlx5_0  1  4  0000:0000:0000:0000:0000:ffff:ac13:003c 172.19.0.60     v1  ens1f0
        (4, "0000:0000:0000:0000:0000:ffff:ac13:003c", "172.19.0.60", "v1"),
        # mlx5_0  1  5  0000:0000:0000:0000:0000:ffff:ac13:003c 172.19.0.60     v2  ens1f0
        (5, "0000:0000:0000:0000:0000:ffff:ac13:003c", "172.19.0.60", "v2"),
    ]


def test_roce_v2_over_ipv4_is_index_5_and_not_the_first_v2_one(gids: tuple[Gid, ...]):
    found = roce_v2(gids)
    assert found is not None
    assert (found.index, found.address) == (5, "172.19.0.60")


def test_the_address_is_in_the_gid_too(gids: tuple[Gid, ...]):
    assert [ipv4_of(gid.gid) for gid in gids] == [gid.address for gid in gids]
    assert ipv4_of("unknown") is None


def test_link_local_addresses_are_not_what_traffic_is_routed_by(gids: tuple[Gid, ...]):
    assert roce_v2(gids[:4]) is None
    assert roce_v2(()) is None


def test_an_empty_table_has_no_gids_and_another_text_is_quoted():
    assert read_show_gids("DEV\tPORT\tINDEX\tGID\n---\t----\nn_gids_found=0\n") == ()
    assert read_show_gids("") == ()
    with pytest.raises(Unreadable, match="'no such device'"):
        read_show_gids("no such device\n")
