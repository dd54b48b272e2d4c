"""What a node's silence says of its replicas, the same wherever it is shown."""

import pytest

from llmgw.model.draining import Draining, draining_words
from llmgw.model.node import LOST, READY, UNREACHABLE, Node
from llmgw.model.replica import DRAINING, Replica, ReplicaShard
from llmgw.model.shard import FAILED, STARTING
from llmgw.model.shard import READY as SHARD_READY
from llmgw.model.whereabouts import UNHEARD, serves, shown_state, whereabouts


def nodes(**liveness: str | None) -> dict[str, Node]:
    return {name: Node(id=name, liveness=found) for name, found in liveness.items()}


def on(*names: str, state: str | None = SHARD_READY) -> Replica:
    shards = tuple(ReplicaShard(rank=rank, node=name) for rank, name in enumerate(names))
    return Replica(id="r", state=state, shards=shards)


@pytest.mark.parametrize(
    ("liveness", "shown", "serving"),
    [
        (READY, SHARD_READY, True),
        (UNREACHABLE, UNREACHABLE, True),
        (LOST, LOST, False),
        (None, UNHEARD, True),
    ],
)
def test_a_ready_replica_serves_unless_its_node_is_lost_and_is_not_shown_as_ready(
    liveness: str | None, shown: str, serving: bool
) -> None:
    there = nodes(n1=liveness)
    assert (shown_state(on("n1"), there), serves(on("n1"), there)) == (shown, serving)


def test_of_several_nodes_the_worst_counts_and_each_is_named() -> None:
    there = nodes(n1=READY, n2=UNREACHABLE, n3=LOST, n4=LOST)
    found = whereabouts(on("n1", "n2", "n3", "n4"), there)
    assert found.away == LOST
    assert found.words == "n3, n4 are lost; n2 is unreachable; last known as ready"


def test_what_is_over_is_over_whatever_its_node_does() -> None:
    assert whereabouts(on("n1", state=FAILED), nodes(n1=LOST)).away is None


def test_a_state_that_nobody_said_is_not_made_up() -> None:
    words = whereabouts(on("n1", state=None), nodes(n1=LOST)).words
    assert words == "n1 is lost; its state is not known"


@pytest.mark.parametrize("state", [STARTING, DRAINING])
def test_what_is_not_ready_does_not_serve(state: str) -> None:
    assert not serves(on("n1", state=state), nodes(n1=READY))


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (Draining(left=2, until=160.0), "2 replies left, stopped in 1m00s at the latest"),
        (Draining(left=1, until=100.0), "1 reply left, stopped now"),
        (
            Draining(until=130.0),
            "how many replies are left is not known, stopped in 30s at the latest",
        ),
        (Draining(left=0, until=160.0, told=True), "it was told to stop"),
    ],
)
def test_what_drains_says_how_much_is_left_and_until_when(one: Draining, words: str) -> None:
    assert draining_words(one, 100.0) == words
