"""How sources of facts are doing: on time or late, and why they fail."""

import pytest

from llmgw.base.units import show_seconds
from llmgw.model.condition import Fact
from llmgw.model.node import ProbeState
from llmgw.model.probes import by_trouble, probe_fact


@pytest.mark.parametrize(
    ("probe", "fact"),
    [
        (ProbeState(name="cpu", age=2.0, period=5.0), Fact(words="every 5s, on time")),
        (ProbeState(name="cpu", age=7.9, period=5.0), Fact(words="every 5s, on time")),
        (ProbeState(name="cpu", age=8.1, period=5.0), Fact(words="every 5s, late by <5s")),
        (ProbeState(name="cpu", age=29.0, period=5.0), Fact(words="every 5s, late by 20s")),
        (ProbeState(name="pci", age=240.0, period=60.0), Fact(words="every 60s, late by 3m00s")),
        (ProbeState(name="pci", age=70.0, period=60.0), Fact(words="every 60s, on time")),
        (ProbeState(name="cpu", age=12.0), Fact(words="read 10s ago")),
        (ProbeState(name="cpu"), Fact(words="nothing read")),
        (ProbeState(name="cpu", period=5.0), Fact(words="every 5s, nothing read")),
        (
            ProbeState(name="smi", age=90.0, error="no answer", failing=840.0, period=60.0),
            Fact(words="fails for 14m00s: no answer; read 1m30s ago, every 60s", wrong=True),
        ),
        (
            ProbeState(name="smi", age=23.0, error="no answer", failing=3.0, period=60.0),
            Fact(words="fails for <5s: no answer; read 20s ago, every 60s", wrong=True),
        ),
        (
            ProbeState(name="smi", error="no such program"),
            Fact(words="fails: no such program; never read", wrong=True),
        ),
    ],
)
def test_a_probe_says_whether_it_is_on_time_and_since_when_it_fails(
    probe: ProbeState, fact: Fact
) -> None:
    assert probe_fact(probe, show_seconds) == fact


def test_a_probe_that_works_says_the_same_with_every_heartbeat() -> None:
    told = {
        probe_fact(ProbeState(name="cpu", age=age / 10, period=5.0), show_seconds).words
        for age in range(56)
    }
    assert told == {"every 5s, on time"}


def test_probes_that_fail_come_first_the_longest_before_the_others() -> None:
    fine, short, long = (
        ProbeState(name="a", age=1.0),
        ProbeState(name="b", error="x", failing=5.0),
        ProbeState(name="c", error="x", failing=50.0),
    )
    assert by_trouble((fine, short, long)) == (long, short, fine)
