"""Why llama.cpp ended, read from its last output."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_agent.parse.llamacpp_causes import SIGILL, cause_of, why_no_gpu

FIXTURES = Path(__file__).parents[3] / "fixtures"


def lines(name: str) -> list[str]:
    return (FIXTURES / name).read_text(errors="replace").splitlines()


@pytest.mark.parametrize(
    ("name", "cause", "part"),
    [
        ("llama-server/port-in-use.log", "port_taken", "port: 20871"),
        ("llama-server/missing-library.txt", "no_engine", "libllama-server-impl.so"),
        ("llama-server/fail-arg.log", "invalid", "--bogus-flag"),
        ("llama-server/fail-bad.log", "bad_file", "'GGML'"),
        ("llama-server/fail-missing.log", "bad_file", "/nonexistent.gguf: No such file"),
        ("llama.cpp/fail-bad.txt", "bad_file", "'GGML'"),
        ("llama.cpp/fail-be.txt", "bad_file", "byte order"),
        ("llama.cpp/fail-trunc.txt", "bad_file", "cut short"),
        ("llama.cpp/fail-arch.txt", "bad_file", "'zamba'"),
        ("llama.cpp/fail-vocab.txt", "bad_file", "token_embd.weight"),
        ("llama.cpp/oom-144gb.txt", "out_of_memory", "144817.04 MiB on device 0"),
    ],
)
def test_each_failure_has_its_cause_in_words(name: str, cause: str, part: str):
    found = cause_of(lines(name), 1)
    assert found is not None
    assert found[0] == cause
    assert part in found[1]


@pytest.mark.parametrize(
    "name",
    [
        "llama-server/start-lv4.log",
        "llama-server/start-default-verbosity.log",
        "llama.cpp/cuda-init-failed-13of33.txt",
        "llama.cpp/no-usable-gpu-2026.txt",
    ],
)
def test_a_good_start_is_no_cause(name: str):
    assert cause_of(lines(name), 1) is None


def test_an_illegal_instruction_names_what_the_build_was_made_for():
    found = cause_of(lines("llama-server/sigill-wrong-processor.log"), SIGILL)
    assert found is not None
    assert found[0] == "bad_build"
    assert "AVX_VNNI" in found[1]
    assert "AMX_INT8" in found[1]


def test_an_illegal_instruction_without_any_output_is_told_too():
    found = cause_of([], SIGILL)
    assert found is not None
    assert found[0] == "bad_build"


def test_why_there_is_no_gpu_is_told_in_the_engines_own_words():
    assert why_no_gpu(lines("llama.cpp/cuda-803.txt")) == (
        "no_gpu",
        "system has unsupported display driver / cuda driver combination",
    )
    assert why_no_gpu(lines("llama.cpp/no-usable-gpu-2026.txt")) == (
        "no_gpu",
        "no usable GPU found",
    )
    assert why_no_gpu(lines("llama-server/start-lv4.log")) is None


def test_an_old_driver_is_told_apart():
    line = (
        "ggml_cuda_init: failed to initialize CUDA: "
        "CUDA driver version is insufficient for CUDA runtime version"
    )
    found = why_no_gpu([line])
    assert found is not None
    assert found[0] == "driver_too_old"


@given(st.lists(st.text(max_size=200), max_size=20), st.none() | st.integers(-64, 255))
def test_no_text_makes_it_raise(text: list[str], rc: int | None):
    cause_of(text, rc)
    why_no_gpu(text)
