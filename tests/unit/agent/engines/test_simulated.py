"""The simulated engine's command line and its arguments."""

from pathlib import Path

import pytest

from llmgw.base.secrets import Secret
from llmgw.model.shard import ShardSpec
from llmgw_agent.engines.adapter import Launch
from llmgw_agent.engines.program import Program
from llmgw_agent.engines.simulated import Simulated
from llmgw_agent.engines.simulated_server.arguments import (
    ArgumentsWrong,
    parse_arguments,
    parse_faults,
)
from llmgw_agent.engines.simulated_server.engine import pieces, token_id

NEEDED = ["--host", "h", "--port", "1", "--model", "m"]


def spec(*arguments: str, model: str = "demo") -> ShardSpec:
    return ShardSpec(
        replica="demo-abc123",
        model=model,
        profile="default",
        fingerprint="f",
        engine="simulated",
        context=1000,
        concurrency=3,
        arguments=arguments,
    )


def test_its_name_says_what_it_is_wherever_it_is_shown():
    assert Simulated().served_name(spec()) == "simulated/demo"
    assert Simulated().served_name(spec(model="simulated-llama")) == "simulated-llama"
    assert "simulated" in parse_arguments(NEEDED).model


def test_its_command_line_is_read_by_its_own_reader():
    program = Program(path=Path("/python"))
    command = Simulated().command(
        Launch(
            spec=spec("--load-time", "2", "--fault", "crash-after=5"),
            program=program,
            host="127.0.0.1",
            port=7500,
            key=Secret("s3cret"),
        )
    )
    assert not any("s3cret" in part for part in command.argv)
    assert command.env["LLMGW_ENGINE_KEY"] == "s3cret"
    read = parse_arguments(command.argv[command.argv.index("--host") :])
    assert (read.port, read.context, read.parallel, read.load_time) == (7500, 1000, 3, 2.0)
    assert read.fault.crash_after == 5


@pytest.mark.parametrize(
    "arguments",
    [
        ("--made-up",),
        ("--tokens-per-second", "0"),
        ("--load-time", "-1"),
        ("--fault", "sulk"),
        ("--fault", "crash-after=x"),
        ("--reply-tokens", "many"),
    ],
)
def test_an_argument_that_the_server_would_refuse_is_a_problem(arguments: tuple[str, ...]):
    assert Simulated().check(spec(*arguments), None)


def test_host_port_and_model_are_not_for_a_profile():
    paths = [p.path for p in Simulated().check(spec("--port", "80"), None)]
    assert paths == ["arguments[0]"]


def test_several_faults_can_be_had_at_once():
    fault = parse_faults(["hang", "ignore-term", "out-of-memory"])
    assert (fault.hang_after, fault.ignore_term, fault.load) == (0, True, "out-of-memory")
    with pytest.raises(ArgumentsWrong, match="'refuse=1' is no fault"):
        parse_faults(["refuse=1"])


def test_its_report_names_no_hardware():
    report = Simulated().read_compute(["simulated: computes on nothing"])
    assert report is not None
    assert report.back_end == "simulated"
    assert Simulated().unused_gpus(report, []) is None


def test_the_same_piece_is_always_the_same_token():
    assert pieces("Hello, big world") == ["Hello", ",", " big", " world"]
    assert "".join(pieces("a  b\nc!")) == "a  b\nc!"
    assert token_id(" world") == token_id(" world") != token_id("world")
