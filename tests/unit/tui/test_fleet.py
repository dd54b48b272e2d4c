"""The store: what belongs to what, and what changed."""

import math

import msgspec

from llmgw.client.interface import LIVE, RECONNECTING, Change, Connection, WatchBatch
from llmgw.model.node import Heartbeat, Sample
from llmgw.model.replica import Replica, ReplicaShard
from llmgw_tui.store.fleet import MOST_EVENTS, Fleet
from llmgw_tui.store.series import Ring
from tests.fakes.feed import built
from tests.unit.tui.seen import fleet_of

CONNECTED = Connection(LIVE, 0.0, 0.0)


def _say(fleet: Fleet, topic: str, id_: str, record: object | None) -> None:
    fleet.take(WatchBatch(CONNECTED, (Change(topic, id_, built(record)),)))


def test_nothing_changed_means_no_changes() -> None:
    fleet, _ = fleet_of("cpu_serving")
    assert fleet.changes().everything
    assert not fleet.changes()


def test_a_replica_touches_its_old_and_new_nodes_and_its_model() -> None:
    fleet, _ = fleet_of("mixed")
    fleet.changes()
    moved = Replica(
        id="embed-small-000001",
        model="embed-small",
        state="ready",
        shards=(ReplicaShard(rank=0, node="cpu-09", state="ready"),),
    )
    _say(fleet, "replicas", moved.id, moved)
    changes = fleet.changes()
    assert changes.nodes == {"cpu-01", "cpu-09"}
    assert changes.models == {"embed-small"}
    before, after = fleet.node("cpu-01"), fleet.node("cpu-09")
    assert before is not None
    assert after is not None
    assert before.replicas == ()
    assert [replica.id for replica in after.replicas] == [moved.id]


def test_a_node_that_falls_silent_touches_its_replicas_and_their_models() -> None:
    fleet, _ = fleet_of("mixed")
    fleet.changes()
    known = fleet.nodes["cpu-01"]
    _say(fleet, "nodes", "cpu-01", msgspec.structs.replace(known, address="192.0.2.9"))
    assert (fleet.changes().replicas, fleet.changes().models) == (set(), set())
    _say(fleet, "nodes", "cpu-01", msgspec.structs.replace(known, liveness="lost"))
    changes = fleet.changes()
    assert changes.replicas == {"embed-small-000001"}
    assert changes.models == {"embed-small"}
    model = fleet.model("embed-small")
    assert model is not None
    assert (model.ready, model.state.word) == (2, "short")
    assert "cpu-01 is lost; last known as ready" in model.why


def test_a_tombstone_takes_the_object_out_of_every_index() -> None:
    fleet, _ = fleet_of("mixed")
    _say(fleet, "replicas", "embed-small-000001", None)
    node, model = fleet.node("cpu-01"), fleet.model("embed-small")
    assert node is not None
    assert model is not None
    assert node.replicas == ()
    assert "embed-small-000001" not in [replica.id for replica in model.replicas]


def test_a_listing_forgets_what_was_known() -> None:
    fleet, _ = fleet_of("mixed")
    fleet.take(WatchBatch(CONNECTED, (), listing=True))
    known = (fleet.nodes, fleet.replicas, fleet.models, fleet.events, fleet.samples)
    assert not any(known)
    assert fleet.changes().everything


def test_a_record_that_cannot_be_read_is_counted_and_not_shown() -> None:
    fleet, _ = fleet_of("cpu_serving")
    fleet.take(WatchBatch(CONNECTED, (Change("nodes", "atlas", {"id": 7}),)))
    assert fleet.unreadable == 1
    assert "atlas" not in fleet.nodes


def test_fields_of_a_newer_version_are_skipped() -> None:
    fleet, _ = fleet_of("empty")
    record = {"id": "new", "liveness": "ready", "invented_later": [1]}
    fleet.take(WatchBatch(CONNECTED, (Change("nodes", "new", record),)))
    assert fleet.nodes["new"].liveness == "ready"


def test_a_lost_connection_is_a_change_and_a_later_word_is_not() -> None:
    fleet, _ = fleet_of("empty")
    fleet.changes()
    fleet.take(WatchBatch(Connection(RECONNECTING, 5.0, 1.0, "nothing listens")))
    assert fleet.changes().connection
    fleet.take(WatchBatch(Connection(RECONNECTING, 6.0, 1.0, "nothing listens")))
    assert not fleet.changes()


def test_a_reading_that_is_missing_is_a_gap_in_the_history() -> None:
    fleet, _ = fleet_of("cpu_serving")
    beat = Heartbeat(sequence=2, cpu_percent=None, memory_bytes=8, memory_available_bytes=None)
    _say(fleet, "samples", "atlas", Sample(id="atlas", at=1.0, heartbeat=beat))
    node = fleet.node("atlas")
    assert node is not None
    assert node.cpu_share is None
    assert node.memory_share is None
    assert math.isnan(node.cpu[-1])
    assert not math.isnan(node.cpu[-2])


def test_old_events_are_dropped() -> None:
    fleet, _ = fleet_of("empty")
    for number in range(MOST_EVENTS + 10):
        event = {
            "id": f"{number:017d}",
            "at": 1.0,
            "severity": "info",
            "kind": "node",
            "subject": "a",
            "words": "b",
        }
        fleet.take(WatchBatch(CONNECTED, (Change("events", f"{number:017d}", event),)))
    assert len(fleet.events) == MOST_EVENTS
    assert min(fleet.events) == f"{10:017d}"


def test_the_cluster_says_its_name_in_its_settings() -> None:
    fleet, _ = fleet_of("empty")
    assert fleet.cluster == "lab"


def test_a_ring_keeps_the_newest_readings() -> None:
    ring = Ring(3)
    for value in (1.0, 2.0, None, 4.0):
        ring.add(value)
    values = list(ring.values())
    assert values[0] == 2.0
    assert math.isnan(values[1])
    assert values[2] == 4.0
