"""The options that a build of llama-server knows."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from llmgw_agent.parse.llamacpp_help import read_options

HELP = Path(__file__).parents[3] / "fixtures" / "llama-server" / "help.txt"


def test_every_name_of_an_option_is_read():
    options = read_options(HELP.read_text())
    assert options is not None
    assert {
        "-m",
        "--model",
        "-ngl",
        "--gpu-layers",
        "--n-gpu-layers",
        "-dev",
        "--device",
    } <= options
    assert {"-nkvo", "--no-kv-offload", "--fim-qwen-1.5b-default"} <= options


def test_options_named_in_descriptions_alone_are_not_read():
    options = read_options("--one N   use with --two\n          -t, --three: see above\n")
    assert options == frozenset({"--one"})


def test_a_text_without_options_says_nothing():
    assert read_options("") is None
    assert read_options("no such file\n") is None


@given(st.text(max_size=500))
def test_no_text_makes_it_raise(text: str):
    read_options(text)


def test_help_in_pythons_own_form_is_read_too():
    text = (
        "usage: llama-server [-h] [-m MODEL]\n                    [--port PORT]\n\noptions:\n"
        "  -h, --help            show this help message and exit\n"
        "  -c CTX_SIZE, --ctx-size CTX_SIZE\n  --port PORT\n  --metrics\n"
    )
    assert read_options(text) == frozenset(
        {"-h", "--help", "-c", "--ctx-size", "--port", "--metrics"}
    )
