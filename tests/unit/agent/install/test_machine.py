"""What decides whether a build runs here, and what a pinned requirement may be."""

import pytest

from llmgw.base.errors import Refused
from llmgw.model.catalog import PackageRef
from llmgw_agent.host.machine import Machine
from llmgw_agent.host.package_index import requirements

HERE = Machine(architecture="x86_64", glibc="2.36")


def test_versions_are_compared_as_numbers_and_not_as_text():
    assert HERE.refuses("x86_64", "2.4") is None
    assert Machine("x86_64", "2.9").refuses("x86_64", "2.17") is not None


def test_a_machine_without_glibc_is_refused_only_where_one_is_needed():
    musl = Machine(architecture="x86_64", glibc=None)
    assert musl.refuses("x86_64", None) is None
    assert "another C library" in (musl.refuses("x86_64", "2.28") or "")
    assert musl.words() == "x86_64, no glibc"


def test_this_machine_tells_itself():
    here = Machine.here()
    assert here.architecture
    assert here.refuses(here.architecture, None) is None
    assert here.flags


def test_a_processor_says_in_words_what_it_lacks():
    machine = Machine("x86_64", "2.36", frozenset({"avx2", "avx512f"}))
    assert machine.lacks(("AVX2", "AVX512", "LLAMAFILE")) is None
    assert machine.lacks(("AVX2", "AVX_VNNI", "AMX_INT8")) == (
        "needs AMX_INT8 and AVX_VNNI, which this processor does not have"
    )
    assert machine.lacks(("SSE3", "AVX_VNNI", "AMX_INT8")) == (
        "needs AMX_INT8, AVX_VNNI and SSE3, which this processor does not have"
    )


def test_a_processor_of_which_nothing_is_known_refuses_nothing():
    assert HERE.lacks(("AMX_INT8",)) is None


def test_machines_whose_processors_can_the_same_share_a_name():
    one = Machine("x86_64", "2.36", frozenset({"avx2", "fma"}))
    assert one.processor() == Machine("x86_64", "2.31", frozenset({"fma", "avx2"})).processor()
    assert one.processor() != Machine("x86_64", "2.36", frozenset({"avx2"})).processor()
    assert one.processor() != Machine("aarch64", "2.36", one.flags).processor()


def package(**changes: str) -> PackageRef:
    fields = {"name": "llama-server", "version": "1.0", "sha256": "a" * 64}
    return PackageRef(**{**fields, **changes})


def test_requirements_are_pinned_with_their_hash():
    assert requirements([package()]) == f"llama-server==1.0 --hash=sha256:{'a' * 64}\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "x --index-url http://elsewhere"},
        {"name": "-r /etc/passwd"},
        {"name": "x @ file:///etc"},
        {"name": ""},
        {"version": "1.0\n--extra-index-url http://elsewhere"},
        {"version": "*"},
        {"sha256": "abc"},
        {"sha256": "A" * 64},
        {"sha256": "a" * 64 + "\n"},
    ],
)
def test_nothing_but_a_pinned_package_reaches_the_installer(changes):
    with pytest.raises(Refused):
        requirements([package(**changes)])
