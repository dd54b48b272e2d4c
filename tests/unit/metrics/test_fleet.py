"""Sums over the fleet: nodes by state, devices by class, replicas, refusals, and traffic."""

import math
from typing import Any

import pytest

from llmgw.control.metrics.collector import gather
from llmgw.model.device import GPU, MIG, Device, DeviceSample, ForeignProcess
from llmgw.model.fabric import Port
from llmgw.model.gateway import Endpoint, Gateway, ModelTraffic, ReplyCount, Route
from llmgw.model.replica import Replica
from llmgw.plan.records import Booking, NodeRoom
from tests.fakes.fleets import FLEETS
from tests.fakes.plane import FakePlane
from tests.unit.metrics.scraped import EMPTY, beat, named, of_node, room, seen, values


def gpu(uuid: str, **fields: object) -> Device:
    return Device(uuid=uuid, device_class="h100", **fields)  # type: ignore[arg-type]


def test_nodes_are_counted_by_liveness_with_zeros_for_the_others() -> None:
    rooms = (room("a"), room("b", liveness="lost"), room("c", liveness=None))
    snapshot = seen(rooms=rooms)
    assert values(snapshot, "llmgw_nodes") == {
        ("ready",): 1,
        ("unreachable",): 0,
        ("lost",): 1,
        ("unknown",): 1,
    }
    states = values(snapshot, "llmgw_node_state")
    assert [state for (node, state), value in states.items() if node == "b" and value] == ["lost"]
    assert sum(states.values()) == 3


def test_wishes_and_warnings_are_counted() -> None:
    rooms = (room("a", wish="draining"), room("b", health=("/ is full", "gpu0: ECC")), room("c"))
    assert values(seen(rooms=rooms), "llmgw_nodes_wished") == {("cordoned",): 0, ("draining",): 1}
    assert values(seen(rooms=rooms), "llmgw_nodes_unhealthy") == {(): 1}
    assert values(seen(rooms=rooms), "llmgw_node_warnings") == {("a",): 0, ("b",): 2, ("c",): 0}


def test_certificates_of_nodes_and_gateways_are_told_with_their_begin_and_end() -> None:
    life: dict[str, Any] = {"certificate_begins": 100.0, "certificate_ends": 900.0}
    snapshot = seen(
        rooms=(room("a", **life), room("new"), room("loopback", certificate_ends=math.inf)),
        gateways=(Gateway(id="g", connected=False, **life), Gateway(id="h", connected=True)),
    )
    begins = values(snapshot, "llmgw_certificate_issued_timestamp_seconds")
    ends = values(snapshot, "llmgw_certificate_expiry_timestamp_seconds")
    assert begins == {("node", "a"): 100.0, ("gateway", "g"): 100.0}
    assert ends == {("node", "a"): 900.0, ("gateway", "g"): 900.0}


def test_a_port_tells_which_fabric_s_master_it_sees_and_nothing_when_it_sees_none() -> None:
    ports = (
        Port(adapter="mlx5_0", number=1, state="ACTIVE", master_guid="0x1"),
        Port(adapter="mlx5_1", number=1, state="ACTIVE", network="10.0.0.0/24"),
        Port(adapter="mlx5_2", number=1, state="ACTIVE"),
    )
    snapshot = of_node(room("gpu-01"), beat(ports=ports))
    assert values(snapshot, "llmgw_ib_port_master") == {("gpu-01", "mlx5_0", "1", "0x1"): 1}


def test_devices_are_counted_by_class() -> None:
    card = Device(uuid="card", kind=GPU, device_class="a100", mig_enabled=True)
    part = Device(uuid="part", kind=MIG, device_class="a100-mig", card_uuid="card")
    rooms = (
        room("a", gpu("1"), gpu("2"), gpu("3", unhealthy=("fell off the bus",)), held=("1",)),
        room("b", gpu("4"), card, part, wish="cordoned"),
        room("c", gpu("5"), liveness="lost"),
        room("d", Device(uuid="6")),
    )
    snapshot = seen(rooms=rooms)
    assert values(snapshot, "llmgw_devices") == {("a100-mig",): 1, ("h100",): 5, ("unknown",): 1}
    assert values(snapshot, "llmgw_devices_in_use") == {
        ("a100-mig",): 0,
        ("h100",): 1,
        ("unknown",): 0,
    }
    assert values(snapshot, "llmgw_devices_unhealthy")["h100",] == 1
    assert values(snapshot, "llmgw_devices_free") == {
        ("a100-mig",): 0,
        ("h100",): 1,
        ("unknown",): 1,
    }


WHOLE = ("llmgw_devices_in_use", "llmgw_devices_free")
FOREIGN = DeviceSample(uuid="1", foreign=(ForeignProcess(pid=7),))


@pytest.mark.parametrize(
    ("where", "unhealthy", "foreign", "held", "part"),
    [
        ({}, (), False, False, "free"),
        ({}, (), False, True, "held"),
        ({"liveness": "lost", "wish": "cordoned"}, ("XID 79",), True, True, "held"),
        ({"liveness": "lost", "wish": "cordoned"}, ("XID 79",), True, False, "away"),
        ({"liveness": None}, (), False, False, "away"),
        ({"wish": "cordoned"}, ("XID 79",), True, False, "unhealthy"),
        ({"wish": "cordoned"}, (), True, False, "foreign"),
        ({"wish": "draining"}, (), False, False, "draining"),
        ({"wish": "cordoned"}, (), False, False, "cordoned"),
    ],
)
def test_each_device_is_in_one_part_of_the_whole(
    where: dict[str, object], unhealthy: tuple[str, ...], foreign: bool, held: bool, part: str
) -> None:
    one = room("a", gpu("1", unhealthy=unhealthy), held=("1",) if held else (), **where)
    readings = (FOREIGN,) if foreign else ()
    snapshot = seen(
        rooms=(NodeRoom(node=one.node, bookings=one.bookings, readings=readings),),
    )
    in_use, free = (values(snapshot, name)["h100",] for name in WHOLE)
    other = values(snapshot, "llmgw_devices_unavailable")
    parts = {"held": in_use, "free": free} | {reason: n for (_, reason), n in other.items()}
    assert [name for name, count in parts.items() if count] == [part]
    assert sum(parts.values()) == values(snapshot, "llmgw_devices")["h100",] == 1


def test_a_card_that_is_cut_draws_once_under_the_class_of_the_whole_card() -> None:
    card = Device(uuid="card", kind=GPU, device_class="a100-80g", mig_enabled=True)
    parts = tuple(
        Device(uuid=f"p{n}", kind=MIG, device_class="a100-80g-mig-1g.20gb", card_uuid="card")
        for n in range(4)
    )
    readings = (DeviceSample(uuid="card", power_watts=212.0),)
    for listed in ((card, *parts), parts):
        one = room("a", *listed)
        snapshot = seen(rooms=(one,), samples={"a": beat("a", devices=readings)})
        assert values(snapshot, "llmgw_devices_power_watts") == {("a100-80g",): 212.0}
        assert values(snapshot, "llmgw_devices") == {("a100-80g-mig-1g.20gb",): 4}


def test_a_device_that_somebody_else_uses_is_not_free() -> None:
    used = DeviceSample(uuid="1", foreign=(ForeignProcess(pid=7),))
    one = room("a", gpu("1"), gpu("2"))
    taken = NodeRoom(node=one.node, readings=(used,))
    assert values(seen(rooms=(taken,)), "llmgw_devices_free") == {("h100",): 1}


def test_a_shard_that_nobody_can_describe_holds_every_device_of_its_node() -> None:
    one = room("a", gpu("1"), gpu("2"))
    odd = NodeRoom(node=one.node, bookings=(Booking(replica="r", rank=0),))
    assert values(seen(rooms=(odd,)), "llmgw_devices_in_use") == {("h100",): 2}
    assert values(seen(rooms=(odd,)), "llmgw_devices_free") == {("h100",): 0}


def test_what_a_class_holds_stands_beside_what_it_does() -> None:
    readings = (
        DeviceSample(uuid="1", busy_percent=100.0, power_watts=350.0, power_limit_watts=700.0),
        DeviceSample(uuid="2", busy_percent=50.0, power_watts=70.0, power_limit_watts=700.0),
        DeviceSample(uuid="3", sm_active_percent=80.0, power_watts=30.0),
    )
    one = room("a", gpu("1"), gpu("2"), gpu("3"), gpu("4"), held=("1", "2"))
    snapshot = seen(rooms=(one,), samples={"a": beat("a", devices=readings)})
    assert values(snapshot, "llmgw_devices_busy_ratio") == {("h100",): 0.75}
    work = values(snapshot, "llmgw_devices_work_ratio")
    assert work == {("h100", "power"): 0.3, ("h100", "sm_active"): 0.8}
    assert values(snapshot, "llmgw_devices_power_watts") == {("h100",): 450.0}


def test_replicas_are_counted_by_model_and_state() -> None:
    snapshot = seen(
        replicas=(
            Replica(id="1", model="m", state="ready"),
            Replica(id="2", model="m", state="ready"),
            Replica(id="3", model="m", state="failed"),
            Replica(id="4"),
        ),
        routes=(Route(model="m", wanted=3, endpoints=(Endpoint(replica="1", host="h", port=1),)),),
    )
    assert values(snapshot, "llmgw_replicas") == {
        ("m", "failed"): 1,
        ("m", "ready"): 2,
        ("unknown", "unknown"): 1,
    }
    assert values(snapshot, "llmgw_replicas_wanted") == {("m",): 3}
    assert values(snapshot, "llmgw_replicas_serving") == {("m",): 1}


def test_a_replica_on_a_lost_node_does_not_count_as_serving() -> None:
    endpoints = (
        Endpoint(replica="1", host="h", port=1, last_resort=True),
        Endpoint(replica="2", host="h", port=2),
    )
    both, lost = Route(model="m", endpoints=endpoints), Route(model="n", endpoints=endpoints[:1])
    served = values(seen(routes=(both, lost)), "llmgw_replicas_serving")
    assert served == {("m",): 1, ("n",): 0}


def test_the_workers_of_a_gateway_that_is_away_are_not_told() -> None:
    here, gone = Gateway(id="a", connected=True, workers=4), Gateway(id="b", connected=False)
    assert values(seen(gateways=(here, gone)), "llmgw_gateway_workers") == {("a",): 4}


async def test_refusals_are_told_by_the_rule_that_made_them() -> None:
    plane = await FakePlane(FLEETS["gpu8"]()).prepare()
    snapshot = gather(plane)
    name = "llmgw_placement_refusals"
    assert values(snapshot, name) == {("qwen3-32b", "memory", "never"): 2}
    assert values(snapshot, "llmgw_replicas_refused")["qwen3-32b",] == 1
    plane.decisions.forget()
    assert values(gather(plane), name) == {}
    assert values(gather(plane), "llmgw_replicas_refused") == {}


def test_traffic_is_told_as_counters() -> None:
    model = ModelTraffic(
        model="m",
        replies=(ReplyCount(code=200, count=7), ReplyCount(code=503, count=1)),
        prompt_tokens=120,
        completion_tokens=340,
        client_aborts=2,
        in_flight=3,
    )
    snapshot = seen(traffic=(model,))
    assert values(snapshot, "llmgw_requests_total") == {("m", "200"): 7, ("m", "503"): 1}
    assert values(snapshot, "llmgw_tokens_total") == {
        ("m", "prompt"): 120,
        ("m", "completion"): 340,
    }
    assert values(snapshot, "llmgw_stream_aborts_total") == {("m", "client"): 2, ("m", "engine"): 0}
    assert values(snapshot, "llmgw_requests_in_flight") == {("m",): 3}
    assert "llmgw_time_to_first_token_seconds" not in named(snapshot)


def test_no_traffic_is_no_sample() -> None:
    assert not [name for name in named(EMPTY) if "request" in name or "token" in name]
