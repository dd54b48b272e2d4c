"""Libraries that a program would not find."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from llmgw_agent.parse.ldd import missing_libraries

LDD = Path(__file__).parents[3] / "fixtures" / "ldd"


def test_a_missing_library_is_named():
    assert missing_libraries((LDD / "not-found.txt").read_text()) == ("libllama-server-impl.so",)


def test_nothing_is_missing_when_all_are_found():
    assert missing_libraries((LDD / "ok.txt").read_text()) == ()


def test_a_glibc_that_is_too_old_is_named_by_its_version():
    said = "./llama-server: /lib/libc.so.6: version `GLIBC_2.38' not found (required by ./x)\n"
    assert missing_libraries(said * 2) == ("GLIBC_2.38",)


@given(st.text())
def test_no_output_raises(text):
    missing_libraries(text)
