"""A processor's last cache."""

import pytest

from llmgw_agent.parse.cpu_cache import Cache, last_cache

TREE = {
    "index0/size": "32K",
    "index0/shared_cpu_list": "0",
    "index2/size": "1024K",
    "index2/shared_cpu_list": "0,64",
    "index3/size": "32768K",
    "index3/shared_cpu_list": "0-7,64-71",
}


def test_the_largest_cache_counts_with_those_that_share_it():
    assert last_cache(TREE) == Cache(size_bytes=32 << 20, cpus=16)


@pytest.mark.parametrize("sharing", ["", "x", "7-0"])
def test_a_cache_whose_sharers_are_not_told_is_one_processors(sharing):
    assert last_cache({**TREE, "index3/shared_cpu_list": sharing}) == Cache(size_bytes=32 << 20)


def test_a_machine_that_tells_no_cache_has_none():
    assert last_cache({}) is None
    assert last_cache({"index0/size": "32 MB"}) is None
