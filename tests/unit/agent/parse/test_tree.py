"""Directories of small files as one text."""

import pytest

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.tree import branches, read_tree


def test_a_listing_is_read_into_contents_by_path():
    text = "mlx5_0/ports/1/state\t4: ACTIVE\n./hwmon0/name\tcoretemp\nhwmon0/uevent\t\n"
    assert read_tree(text) == {
        "mlx5_0/ports/1/state": "4: ACTIVE",
        "hwmon0/name": "coretemp",
        "hwmon0/uevent": "",
    }


def test_a_line_without_a_tab_costs_itself():
    assert read_tree("broken\na/b\t1\n\tno path\n") == {"a/b": "1"}


def test_an_empty_listing_has_no_files():
    assert read_tree("") == {}


def test_a_text_that_is_no_listing_is_quoted():
    with pytest.raises(Unreadable, match="'No such file or directory'"):
        read_tree("No such file or directory\n")


def test_what_lies_below_each_directory_keeps_its_path_from_there():
    assert branches({"a/b/c": "1", "a/d": "2", "e": "3", "f/g": "4"}) == {
        "a": {"b/c": "1", "d": "2"},
        "f": {"g": "4"},
    }
