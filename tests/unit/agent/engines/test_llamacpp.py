"""How llama-server is started, and what a profile may not do to it."""

from pathlib import Path

import pytest

from llmgw.base.errors import NotFound
from llmgw.base.secrets import Secret
from llmgw.model.catalog import PathSource
from llmgw.model.device import Device
from llmgw.model.shard import Rendezvous, ShardSpec
from llmgw_agent.engines.adapter import Launch
from llmgw_agent.engines.llamacpp import LlamaCpp
from llmgw_agent.engines.llamacpp_arguments import refusal
from llmgw_agent.engines.program import Program
from llmgw_agent.parse.llamacpp_help import read_options
from llmgw_agent.parse.llamacpp_log import read_compute

FIXTURES = Path(__file__).parents[3] / "fixtures"
PROGRAM = Program(path=Path("/engines/llama-server"), libraries=(Path("/engines"),), version="1")


def spec(**changes: object) -> ShardSpec:
    fields = {
        "replica": "tiny-abc123",
        "model": "demo/tiny:1b",
        "profile": "default",
        "fingerprint": "f",
        "engine": "llamacpp",
        "source": PathSource(path="/models/tiny.gguf"),
        "context": 2048,
        "concurrency": 4,
        "cpu_cores": 2,
    }
    return ShardSpec(**{**fields, **changes})  # type: ignore[arg-type]


def launch(of: ShardSpec, **changes: object) -> Launch:
    fields = {
        "spec": of,
        "program": PROGRAM,
        "host": "127.0.0.1",
        "port": 7501,
        "weights": Path("/models/tiny.gguf"),
    }
    return Launch(**{**fields, **changes})  # type: ignore[arg-type]


def after(argv: tuple[str, ...], option: str) -> str:
    return argv[argv.index(option) + 1]


def problems(of: ShardSpec, options: frozenset[str] | None = None) -> dict[str, str]:
    return {p.path: p.words for p in LlamaCpp().check(of, options)}


def test_the_context_is_each_requests_own():
    argv = LlamaCpp().command(launch(spec())).argv
    assert after(argv, "-c") == "8192"
    assert after(argv, "-np") == "4"
    assert after(argv, "-t") == after(argv, "-tb") == "2"


def test_it_says_enough_to_be_read():
    argv = LlamaCpp().command(launch(spec())).argv
    assert after(argv, "-lv") == "4"
    assert "--metrics" in argv


def test_it_answers_to_the_models_public_name():
    argv = LlamaCpp().command(launch(spec())).argv
    assert after(argv, "--alias") == "demo/tiny:1b" == LlamaCpp().served_name(spec())


def test_the_key_is_in_the_environment_alone():
    command = LlamaCpp().command(launch(spec(), key=Secret("s3cret-key")))
    assert command.env["LLAMA_API_KEY"] == "s3cret-key"
    assert not any("s3cret-key" in part for part in command.argv)


def test_a_replica_on_the_cpu_sees_no_card():
    command = LlamaCpp().command(launch(spec()))
    assert after(command.argv, "-ngl") == "0"
    assert after(command.argv, "--device") == "none"
    assert command.env["GGML_VK_VISIBLE_DEVICES"] == ""


def test_a_build_that_knows_no_device_option_is_not_given_one():
    argv = LlamaCpp().command(launch(spec(), options=frozenset({"-ngl", "-m"}))).argv
    assert "--device" not in argv


@pytest.mark.parametrize(("concurrency", "threads"), [(None, "64"), (16, "64"), (40, "160")])
def test_requests_that_wait_leave_a_thread_to_ask_how_it_is(concurrency, threads):
    options = frozenset({"--threads-http"})
    argv = LlamaCpp().command(launch(spec(concurrency=concurrency), options=options)).argv
    assert after(argv, "--threads-http") == threads


@pytest.mark.parametrize("options", [None, frozenset({"-m", "-np"})])
def test_a_build_that_lists_no_http_threads_is_given_none(options):
    assert "--threads-http" not in LlamaCpp().command(launch(spec(), options=options)).argv


def test_a_replica_with_cards_takes_all_layers_there():
    cards = (Device(uuid="GPU-b", number=3), Device(uuid="GPU-a", number=1))
    command = LlamaCpp().command(launch(spec(devices=("GPU-b", "GPU-a")), devices=cards))
    assert after(command.argv, "-ngl") == "999"
    assert "--device" not in command.argv
    assert command.env["GGML_VK_VISIBLE_DEVICES"] == "3,1"


def test_a_replica_on_a_mig_instance_is_given_it_through_cuda_alone():
    instance = (Device(uuid="MIG-a", kind="mig", number=1102, card_uuid="GPU-a"),)
    command = LlamaCpp().command(launch(spec(devices=("MIG-a",)), devices=instance))
    assert "GGML_VK_VISIBLE_DEVICES" not in command.env
    assert (after(command.argv, "-ngl"), after(command.argv, "--device")) == ("999", "CUDA0")
    old = launch(spec(devices=("MIG-a",)), devices=instance, options=frozenset({"-m"}))
    assert "--device" not in LlamaCpp().command(old).argv


def test_what_a_profile_does_not_say_is_left_to_the_engine():
    argv = LlamaCpp().command(launch(spec(context=None, cpu_cores=None, concurrency=None))).argv
    assert not {"-c", "-t", "-tb"} & set(argv)
    assert after(argv, "-np") == "4"


def test_the_profiles_arguments_come_last():
    argv = LlamaCpp().command(launch(spec(arguments=("--flash-attn", "on")))).argv
    assert argv[-2:] == ("--flash-attn", "on")


@pytest.mark.parametrize(
    "argument",
    [
        "--port",
        "-m",
        "--api-key",
        "--api_key",
        "--api-key=abc",
        "-ngl",
        "--device",
        "-c",
        "--alias",
        "-hf",
        "--rpc",
        "--threads-http",
        "--threads_http=2",
        "--tools",
        "--log-file",
        "--version",
    ],
)
def test_what_llmgw_manages_is_refused_by_name(argument: str):
    words = problems(spec(arguments=("--flash-attn", "on", argument, "x")))["arguments[2]"]
    assert argument.partition("=")[0].replace("_", "-") in words


def test_every_refused_option_says_what_to_do_instead():
    options = read_options((FIXTURES / "llama-server" / "help.txt").read_text())
    assert options is not None
    refused = [option for option in options if refusal(option)]
    assert len(refused) > 60
    assert all(len(refusal(option) or "") > len(option) + 20 for option in refused)


def test_an_option_that_this_build_does_not_know_is_refused_with_the_nearest():
    options = read_options((FIXTURES / "llama-server" / "help.txt").read_text())
    found = problems(spec(arguments=("--flash-atn", "on", "--seed", "-1")), options)
    assert list(found) == ["arguments[0]"]
    assert "--flash-attn" in found["arguments[0]"]


def test_an_unknown_option_passes_where_the_build_could_not_be_asked():
    assert problems(spec(arguments=("--made-up",)), None) == {}


def test_underscores_are_read_as_llama_cpp_reads_them():
    options = frozenset({"--flash-attn"})
    assert problems(spec(arguments=("--flash_attn", "on")), options) == {}


def test_every_problem_is_told_at_once():
    wrong = spec(
        source=None,
        model="a,b",
        rank=1,
        context=2**31,
        concurrency=0,
        rendezvous=Rendezvous(address="n", port=1, world=2),
        arguments=("--host",),
    )
    assert set(problems(wrong)) == {
        "source",
        "model",
        "nodes",
        "context",
        "concurrency",
        "arguments[0]",
    }


def test_the_first_part_of_a_split_model_is_opened():
    names = ("README.md", "mmproj-x.gguf", "x-00001-of-00002.gguf", "x-00002-of-00002.gguf")
    found = LlamaCpp().weights_file(Path("/w"), names)
    assert found == Path("/w/x-00001-of-00002.gguf")


def test_a_directory_without_a_gguf_file_is_not_found():
    with pytest.raises(NotFound, match=r"/w: no \.gguf"):
        LlamaCpp().weights_file(Path("/w"), ("model.safetensors",))


def test_cards_that_are_not_used_are_told_with_the_reason():
    text = (FIXTURES / "llama.cpp" / "cuda-init-failed-13of33.txt").read_text().splitlines()
    found = LlamaCpp().unused_gpus(read_compute(text), text)
    assert found is not None
    assert found[0] == "no_gpu"
    assert "buffers: CPU" in found[1]
    assert "no CUDA-capable device is detected" in found[1]


def test_cards_that_are_used_and_reports_that_can_not_tell_are_left_alone():
    text = (FIXTURES / "llama.cpp" / "cuda-62of62-2025.txt").read_text().splitlines()
    assert LlamaCpp().unused_gpus(read_compute(text), text) is None
    assert LlamaCpp().unused_gpus(None, []) is None
