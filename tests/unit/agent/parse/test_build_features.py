"""Which features a build was compiled for that a processor does not have."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.model.settings import LLAMACPP_DEFAULT
from llmgw_agent.parse.build_features import FLAG_OF, lacking, read_features
from llmgw_agent.parse.cpuinfo import read_flags

FIXTURES = Path(__file__).parents[3] / "fixtures"
LAPTOP = read_flags((FIXTURES / "proc" / "cpuinfo-i7-8650u.txt").read_text())
SERVER = read_flags((FIXTURES / "proc" / "cpuinfo-model_not_supported.txt").read_text())
QEMU = read_flags((FIXTURES / "proc" / "cpuinfo-qemu64-no-avx2.txt").read_text())
GRACE = read_flags((FIXTURES / "proc" / "cpuinfo-grace-aarch64.txt").read_text())


def compiled_for(name: str) -> tuple[str, ...]:
    return read_features((FIXTURES / "llama-build" / name).read_text())


def test_a_build_says_what_it_was_compiled_for():
    assert compiled_for("b10068.txt") == (
        *("SSE3", "SSSE3", "AVX", "AVX2", "F16C", "FMA", "BMI2"),
        *("LLAMAFILE", "OPENMP", "REPACK"),
    )
    assert compiled_for("xllamacpp-11549.txt") == compiled_for("b10068.txt")


def test_a_build_for_amx_does_not_fit_a_laptop_and_says_what_is_missing():
    assert lacking(compiled_for("b10434.txt"), LAPTOP) == (
        "AMX_INT8",
        "AVX512",
        "AVX512_BF16",
        "AVX512_VBMI",
        "AVX512_VNNI",
        "AVX_VNNI",
    )


def test_a_build_fits_the_processor_that_it_was_made_for():
    assert lacking(compiled_for("b10434.txt"), SERVER) == ()
    assert lacking(compiled_for("b10068.txt"), LAPTOP) == ()


def test_a_build_for_avx2_does_not_fit_a_processor_without():
    assert "AVX2" in lacking(compiled_for("b10068.txt"), QEMU)


def test_features_of_arm_are_known_by_the_kernels_names():
    arm = ("NEON", "ARM_FMA", "FP16_VA", "MATMUL_INT8", "SVE", "DOTPROD", "SVE_CNT")
    assert lacking(arm, GRACE) == ()
    assert lacking(arm, frozenset({"asimd", "fp"})) == ("DOTPROD", "FP16_VA", "MATMUL_INT8", "SVE")


def test_a_name_that_is_not_known_refuses_nothing():
    assert lacking(("LLAMAFILE", "OPENMP", "SOMETHING_NEW"), LAPTOP) == ()


def test_a_processor_that_says_nothing_lacks_nothing():
    assert lacking(tuple(FLAG_OF), frozenset()) == ()


def test_a_build_that_says_nothing_needs_nothing():
    assert read_features("") == ()
    assert read_features("system_info: n_threads = 2 | CUDA : ARCHS = 800 | ") == ()


def test_other_back_ends_of_a_build_need_nothing_of_the_processor():
    line = "system_info: n_threads = 8 | CUDA : F16 = 1 | AVX512 = 1 | CPU : SSE3 = 1 | "
    assert read_features(line) == ("SSE3",)


def test_what_an_order_says_that_a_build_needs_is_what_the_build_says():
    declared = next(build for build in LLAMACPP_DEFAULT.builds if build.version == "0.10434.0")
    beyond = set(compiled_for("b10434.txt")) - set(compiled_for("b10068.txt"))
    assert set(declared.needs) == beyond


@pytest.mark.parametrize("build", LLAMACPP_DEFAULT.builds)
def test_a_need_of_an_order_is_a_name_that_is_known(build):
    assert set(build.needs) <= FLAG_OF.keys()


@given(st.text(), st.frozensets(st.text()))
def test_no_output_raises(text, flags):
    lacking(read_features(text), flags)
    lacking(read_features(f"system_info: n_threads = 2 | CPU : {text}"), flags)
