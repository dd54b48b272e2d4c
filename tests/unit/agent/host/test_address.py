"""An own address that is written wins, and is told beside what is found when they differ."""

import pytest

from llmgw_agent.host.address import disagreement


def test_a_written_address_that_no_route_leaves_from_is_told_with_both() -> None:
    warning = disagreement("10.0.0.9", "10.0.0.5", "head:7442")
    assert warning is not None
    assert warning.subject == "address"
    assert warning.words == "its file says 10.0.0.9, the route to head:7442 leaves from 10.0.0.5"


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("10.0.0.9", "10.0.0.9"),
        ("fd00::1", "fd00:0:0::1"),
        ("gpu-01.lab", "10.0.0.5"),
        ("10.0.0.9", "127.0.0.1"),
        ("10.0.0.9", None),
    ],
)
def test_what_agrees_or_cannot_be_compared_is_no_warning(written: str, found: str | None) -> None:
    assert disagreement(written, found, "head:7442") is None
