"""What an installer's output says of the cause, in words, for pip and for uv."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_agent.parse import package_log
from llmgw_agent.parse.package_log import read_failure

FIXTURES = Path(__file__).parents[3] / "fixtures"
HERE = "x86_64, glibc 2.36"


def failure(tool: str, name: str) -> package_log.Failure:
    return read_failure((FIXTURES / tool / f"{name}.txt").read_text(), HERE)


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_another_hash_is_told_with_both_sums(tool):
    told = failure(tool, "hash")
    assert told.kind == package_log.WRONG_HASH
    assert "demo-engine==1.0" in told.words
    assert "0" * 64 in told.words
    assert "d248db958dfc4586ef504d8e5c2fbb44af9e28f8fd0b3f7f32e344c898d228ae" in told.words


@pytest.mark.parametrize("tool", ["pip", "uv"])
@pytest.mark.parametrize(
    ("name", "words"), [("index", "Connection refused"), ("name", "Name or service not known")]
)
def test_an_index_that_does_not_answer_is_told_with_the_reason(tool, name, words):
    told = failure(tool, name)
    assert told.kind == package_log.UNREACHABLE
    assert told.words.startswith("no package index can be reached")
    assert words in told.words


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_a_wheel_for_another_platform_names_this_one(tool):
    told = failure(tool, "platform")
    assert told.kind == package_log.NO_WHEEL
    assert "demo-mac==1.0" in told.words
    assert HERE in told.words


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_a_version_that_is_not_there_is_not_called_a_platform_problem(tool):
    told = failure(tool, "version")
    assert told.kind == package_log.NO_WHEEL
    assert "demo-engine==2.0" in told.words
    assert HERE not in told.words


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_a_full_disk_is_told_as_one(tool):
    assert failure(tool, "disk").kind == package_log.DISK_FULL


def test_an_unknown_failure_quotes_the_last_error_without_secrets():
    said = "Looking in links\nERROR: HTTP error 403 while getting http://user:pass@index.example/x"
    told = read_failure(said, HERE)
    assert told.kind == package_log.OTHER
    assert "HTTP error 403" in told.words
    assert "pass" not in told.words


def test_silence_is_told_as_such():
    assert read_failure("", HERE).words == "it printed nothing"


@given(st.text())
def test_no_output_raises(text):
    assert read_failure(text, HERE).words
