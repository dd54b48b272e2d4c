"""`host:port` is read one way everywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.address import host_and_port, joined
from llmgw.base.errors import Usage

PARTS = [
    ("0.0.0.0:7440", ("0.0.0.0", 7440)),
    ("[fe80::1]:7442", ("fe80::1", 7442)),
    ("head.example:1", ("head.example", 1)),
    ("head:65535", ("head", 65535)),
]
WRONG = ["", "7440", "host", "host:", ":7440", "[]:1", "host:x", "host:65536", "host:-1", "h:1 "]


@pytest.mark.parametrize(("text", "parts"), PARTS)
def test_addresses_of_both_families_and_names_are_read_and_written(
    text: str, parts: tuple[str, int]
) -> None:
    assert host_and_port(text) == parts
    assert joined(*parts) == text


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_address_is_quoted_with_its_field(text: str) -> None:
    with pytest.raises(Usage) as caught:
        host_and_port(text, "control_planes")
    assert caught.value.message == f"control_planes: {text!r} is not an address"
    assert caught.value.hint == "write it like head-1:7442"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a:1,b:2", "one address each, like head-1:7442"),
        ("::1:7442", "an IPv6 address stands in brackets, like [::1]:7442"),
        ("fe80::1", "an IPv6 address stands in brackets, like [::1]:1"),
        ("a b:1", "write it like head-1:7442"),
        ("a\x1b]0;x\x07:1", "write it like head-1:7442"),
        ("[head]:1", "write it like head-1:7442"),
        ("[::1:1", "write it like head-1:7442"),
        ("http://head:1", "without http://, like head-1:7442"),
        ("head:\u0663", "write it like head-1:7442"),
        ("me@head:1", "write it like head-1:7442"),
        ("head\n:1", "write it like head-1:7442"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(text: str, hint: str) -> None:
    with pytest.raises(Usage) as caught:
        host_and_port(text)
    assert caught.value.message == f"{text!r} is not an address"
    assert caught.value.hint == hint


def test_port_0_is_for_who_listens_alone() -> None:
    assert host_and_port("[::1]:0", "listen", listening=True) == ("::1", 0)
    with pytest.raises(Usage):
        host_and_port("[::1]:0", "listen")


@given(st.text(max_size=20))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        host, port = host_and_port(text)
    except Usage:
        return
    assert host
    assert 0 < port <= 65535
