"""How changes are written down."""

import pytest

from llmgw.model.settings import ServingSettings, Settings
from llmgw.store.shown import as_json, leaf_json, leaves


@pytest.mark.parametrize(
    "arguments",
    [
        ["--api-key", "s3cret"],
        ["--api-key=s3cret"],
        ["-v", "--hf-token", "s3cret", "--port", "1"],
        ["--password=s3cret=with=signs"],
        ["Bearer s3cretlongenough"],
        ["https://ana:s3cret@host/x"],
    ],
)
def test_a_secret_among_arguments_is_hidden(arguments: list[str]):
    shown = as_json({"arguments": arguments})
    assert "s3cret" not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "arguments",
    [["--max-num-batched-tokens", "8192"], ["--tokenizer-mode=auto"], ["--port", "1", "x"]],
)
def test_an_argument_that_is_no_secret_is_shown(arguments: list[str]):
    assert "***" not in as_json({"arguments": arguments})


def test_values_under_the_name_of_a_secret_are_hidden_at_any_depth():
    value = {"a": [{"api_key": "s3cret", "port": 1}], "token": None, "sha256": "ab"}
    assert as_json(value) == '{"a":[{"api_key":"***","port":1}],"sha256":"ab","token":null}'
    assert as_json(value, hidden=frozenset({"sha256"})).count("***") == 2


def test_leaves_are_named_by_dotted_path_and_lists_are_one_value():
    found = leaves(Settings(serving=ServingSettings(stopped=True)))
    assert found["serving.stopped"] is True
    assert isinstance(found["engines.llamacpp.builds"], list | tuple)
    assert "engines" not in found
    assert leaves(Settings(engines={}))["engines"] == {}


def test_a_leaf_is_hidden_by_the_last_part_of_its_path():
    assert leaf_json("a.b.password", "s3cret") == '"***"'
    assert leaf_json("a.password.length", 12) == "12"
