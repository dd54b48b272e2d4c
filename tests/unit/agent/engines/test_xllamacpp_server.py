"""The launcher takes llama-server's options and refuses what it does not know in its words."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from llmgw.base.secrets import Secret
from llmgw_agent.engines.adapter import Launch
from llmgw_agent.engines.llamacpp import LlamaCpp
from llmgw_agent.engines.program import Program
from llmgw_agent.engines.xllamacpp_server import main, parameters, parser
from llmgw_agent.parse.llamacpp_causes import cause_of
from llmgw_agent.parse.llamacpp_help import read_options
from tests.fakes.node import KEY, shard_spec

OPTIONS = read_options(parser().format_help())


class Library:
    """The wheel's module, as far as the launcher uses it."""

    @staticmethod
    def CommonParams() -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(
            model=SimpleNamespace(path=""),
            cpuparams=SimpleNamespace(n_threads=-1),
            cpuparams_batch=SimpleNamespace(n_threads=-1),
        )


def command(**changes: object) -> tuple[str, ...]:
    """Return the options that a shard is started with."""
    launch = Launch(
        spec=shard_spec(**changes),  # type: ignore[arg-type]
        program=Program(path=Path("/p")),
        host="10.0.0.7",
        port=7501,
        weights=Path("/models/tiny.gguf"),
        key=Secret(KEY),
        options=OPTIONS,
    )
    return LlamaCpp().command(launch).argv[1:]


def set_by(*options: str) -> dict[str, object]:
    return vars(parameters(Library, parser().parse_args(options)))


def test_its_help_lists_its_options_so_that_others_are_refused_before_the_start():
    assert OPTIONS is not None
    assert {"-c", "--ctx-size", "-np", "--parallel", "-ngl", "--no-warmup"} <= OPTIONS
    problems = LlamaCpp().check(shard_spec(arguments=("--flash-attn", "on")), OPTIONS)
    assert [p.words for p in problems] == ["this llama.cpp does not know --flash-attn"]
    assert LlamaCpp().check(shard_spec(arguments=("-b", "256", "--no-warmup")), OPTIONS) == ()


def test_it_takes_the_command_line_of_a_shard(monkeypatch):
    monkeypatch.setenv("LLAMA_API_KEY", KEY)
    made = set_by(*command(cpu_cores=3))
    assert made["model"] == SimpleNamespace(path="/models/tiny.gguf")
    assert (made["hostnames"], made["port"]) == (["10.0.0.7"], 7501)
    assert (made["n_ctx"], made["n_parallel"], made["n_gpu_layers"]) == (1024, 2, 0)
    assert (made["verbosity"], made["endpoint_metrics"]) == (4, True)
    assert made["n_threads_http"] == 64
    assert (made["model_alias"], made["api_keys"]) == ({"tiny"}, [KEY])
    assert made["cpuparams"] == made["cpuparams_batch"] == SimpleNamespace(n_threads=3)


def test_what_is_not_said_stays_as_the_library_has_it(monkeypatch):
    monkeypatch.delenv("LLAMA_API_KEY", raising=False)
    made = set_by("-m", "x")
    assert made.keys() == {"model", "hostnames", "cpuparams", "cpuparams_batch"}
    assert made["cpuparams"] == SimpleNamespace(n_threads=-1)


def test_switches_turn_on_and_off():
    made = set_by("--embedding", "--no-warmup", "-nocb")
    assert (made["embedding"], made["warmup"], made["cont_batching"]) == (True, False, False)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--batch_size", "many"), "invalid int value: 'many'"),
        (("--made-up", "1"), "unrecognized arguments: --made-up 1"),
        (("--ctx",), "unrecognized arguments: --ctx"),
    ],
)
def test_a_wrong_command_line_ends_it_in_words_that_are_known(options, words, capsys):
    with pytest.raises(SystemExit) as ended:
        main("/nowhere", options)
    assert ended.value.code == 1
    found = cause_of(capsys.readouterr().err.splitlines(), 1)
    assert found is not None
    assert (found[0], words in found[1]) == ("invalid", True), found
