"""Every state is told apart by glyph and word, whatever the colours."""

import msgspec
import pytest

from llmgw.model.node import Node
from llmgw.model.replica import Replica, ReplicaShard
from llmgw_tui.draw import states
from llmgw_tui.draw.states import GLYPHS, URGENCY, State
from llmgw_tui.themes.paint import to_ascii


def test_no_two_kinds_share_a_glyph_in_unicode_or_ascii() -> None:
    assert len(set(GLYPHS.values())) == len(GLYPHS)
    assert len({to_ascii(glyph) for glyph in GLYPHS.values()}) == len(GLYPHS)
    assert set(GLYPHS) == set(URGENCY)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, State("not heard of", "unknown")),
        ({"liveness": "lost"}, State("lost", "down")),
        ({"liveness": "unreachable", "wish": "draining"}, State("unreachable", "down")),
        ({"liveness": "ready", "wish": "cordoned"}, State("cordoned", "warn")),
        ({"liveness": "ready", "health": ("hot",)}, State("degraded", "warn")),
        ({"liveness": "ready"}, State("ready", "idle")),
        ({"liveness": "sleeping"}, State("sleeping", "unknown")),
    ],
)
def test_a_nodes_state_is_its_worst_news(fields: dict[str, object], expected: State) -> None:
    node = msgspec.convert({"id": "n", **fields}, Node)
    assert states.node_state(node, (), troubled=bool(node.health)) == expected


def test_a_node_is_serving_as_soon_as_one_replica_is_ready() -> None:
    node = Node(id="n", liveness="ready")
    loading, ready = Replica(id="a", state="fetching"), Replica(id="b", state="ready")
    assert states.node_state(node, (loading,), troubled=False) == State("starting", "moving")
    assert states.node_state(node, (loading, ready), troubled=False) == State("serving", "serving")


@pytest.mark.parametrize(
    ("liveness", "expected"),
    [
        ("ready", State("ready", "serving")),
        ("unreachable", State("unreachable", "warn")),
        ("lost", State("lost", "down")),
        (None, State("not heard", "unknown")),
    ],
)
def test_a_ready_replica_is_as_far_as_its_node_is_heard(
    liveness: str | None, expected: State
) -> None:
    there = {"n": Node(id="n", liveness=liveness)}
    replica = Replica(id="a", state="ready", shards=(ReplicaShard(rank=0, node="n"),))
    assert states.replica_state(replica, there) == expected


def test_a_state_of_a_newer_version_is_shown_and_not_guessed() -> None:
    assert states.shard_state("hibernating") == State("hibernating", "unknown")
    assert states.shard_state(None) == State("unknown", "unknown")
    assert states.engine_state("\x1b[31mred") == State("red", "unknown")


@pytest.mark.parametrize(
    ("wanted", "ready", "moving", "word"),
    [
        (0, 0, 0, "off"),
        (1, 1, 0, "serving"),
        (2, 1, 1, "short"),
        (2, 0, 1, "starting"),
        (2, 0, 0, "not running"),
        (0, 1, 0, "serving"),
    ],
)
def test_a_models_word_says_whether_it_answers(
    wanted: int, ready: int, moving: int, word: str
) -> None:
    assert states.model_state(wanted, ready, moving).word == word
