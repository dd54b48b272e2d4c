"""Nodes: cores, memory, disks, weights, sensors, sources of facts, ports and fabrics."""

import msgspec

from llmgw.control.metrics.onenode import OLD_SECONDS
from llmgw.model.device import Device, NvlinkFabric
from llmgw.model.fabric import NvlinkDomain, Port, PortCounter, SubnetManager
from llmgw.model.node import Filesystem, Host, Inventory, ProbeState, Sensor, WeightsHeld
from llmgw.model.shard import ShardUse
from llmgw.plan.records import Booking, NodeRoom
from tests.fakes.fleets import GB, NOW
from tests.unit.metrics.scraped import beat, by, named, of_devices, of_node, room, seen, values


def test_memory_used_needs_both_figures() -> None:
    name = "llmgw_node_memory_used_bytes"
    assert values(of_node(room("gpu-01"), beat(memory_bytes=8)), name) == {}
    both = beat(memory_bytes=8, memory_available_bytes=5)
    assert values(of_node(room("gpu-01"), both), name) == {("gpu-01",): 3}


def test_a_measurement_older_than_a_minute_is_left_out() -> None:
    old = beat("old", NOW - OLD_SECONDS - 1, cpus=2)
    fresh = beat("fresh", NOW - OLD_SECONDS, cpus=2)
    snapshot = seen(rooms=(room("old"), room("fresh")), samples={"old": old, "fresh": fresh})
    assert values(snapshot, "llmgw_node_cpus") == {("fresh",): 2}


def test_memory_that_shards_were_given_is_unknown_when_one_does_not_tell() -> None:
    def given(*sizes: int | None) -> dict[tuple[str, ...], float]:
        bookings = tuple(
            Booking(replica="r", rank=rank, memory_bytes=size) for rank, size in enumerate(sizes)
        )
        one = NodeRoom(node=room("a").node, bookings=bookings)
        return values(of_node(one), "llmgw_node_memory_reserved_bytes")

    assert given() == {("a",): 0}
    assert given(GB, 2 * GB) == {("a",): 3 * GB}
    assert given(GB, None) == {}


def test_disks_are_told_with_their_type_and_whether_they_are_shared() -> None:
    disks = (
        Filesystem(mount="/", type="ext4", shared=False, total_bytes=10, free_bytes=4),
        Filesystem(mount="/data", type="nfs4", shared=True, total_bytes=100),
        Filesystem(mount="/odd"),
    )
    snapshot = of_node(room("gpu-01"), beat(filesystems=disks))
    assert values(snapshot, "llmgw_node_filesystem_bytes") == {
        ("gpu-01", "/", "ext4", "false"): 10,
        ("gpu-01", "/data", "nfs4", "true"): 100,
    }
    assert values(snapshot, "llmgw_node_filesystem_free_bytes") == {
        ("gpu-01", "/", "ext4", "false"): 4
    }


def test_a_node_that_holds_no_weights_differs_from_one_that_does_not_say() -> None:
    name = "llmgw_node_weights_bytes"
    held = (
        WeightsHeld(name="a", size_bytes=5),
        WeightsHeld(name="b", size_bytes=7, shared=True),
        WeightsHeld(name="c"),
    )
    some = room("a", inventory=Inventory(weights=held))
    none = room("b", inventory=Inventory(weights=()))
    silent = room("c")
    found = values(seen(rooms=(some, none, silent)), name)
    assert found == {("a", "false"): 5, ("a", "true"): 7, ("b", "false"): 0, ("b", "true"): 0}


def test_memory_bandwidth_is_told_once_it_was_measured() -> None:
    name = "llmgw_node_mem_bandwidth_bytes_per_second"
    assert values(of_node(room("a", inventory=Inventory(host=Host()))), name) == {}
    host = Host(mem_bandwidth_gbs=312.5, mem_bandwidth_core_gbs=14.25)
    found = values(of_node(room("a", inventory=Inventory(host=host))), name)
    assert found == {("a", "machine"): 312.5e9, ("a", "core"): 14.25e9}


def test_sensors_are_told_by_kind_and_one_that_reads_nothing_is_absent() -> None:
    sensors = (
        Sensor(kind="temperature", label="Package id 0", value=55.0),
        Sensor(kind="temperature", label="Inlet"),
        Sensor(kind="power", label="package-0", value=211.5),
    )
    snapshot = of_node(room("gpu-01"), beat(sensors=sensors))
    assert by(values(snapshot, "llmgw_node_temperature_celsius"), 1) == {("Package id 0",): 55.0}
    assert by(values(snapshot, "llmgw_node_power_watts"), 1) == {("package-0",): 211.5}


def test_what_engines_use_names_the_model() -> None:
    uses = (ShardUse(replica="m-1", cpu_cores=5.2, memory_bytes=9, requests_waiting=0),)
    snapshot = of_node(room("gpu-01"), beat(shards=uses), models_of={"m-1": "m"})
    assert values(snapshot, "llmgw_shard_cpu_cores") == {("gpu-01", "m-1", "0", "m"): 5.2}
    assert values(snapshot, "llmgw_shard_requests_waiting") == {("gpu-01", "m-1", "0", "m"): 0}
    assert "llmgw_shard_requests_running" not in named(snapshot)


def test_a_source_of_facts_that_fails_says_so_and_since_when() -> None:
    probes = (
        ProbeState(name="gpus", age=1.5),
        ProbeState(name="fabric", error="no answer in 10 s", failing=60.0),
    )
    snapshot = of_node(room("gpu-01"), beat(at=NOW - 2, probes=probes))
    assert by(values(snapshot, "llmgw_probe_failing"), 1) == {("gpus",): 0, ("fabric",): 1}
    assert by(values(snapshot, "llmgw_probe_age_seconds"), 1) == {("gpus",): 3.5}
    assert by(values(snapshot, "llmgw_probe_failing_seconds"), 1) == {("fabric",): 62.0}


# -- ports, fabrics, NVLink ------------------------------------------------------------------

UP = Port(
    adapter="mlx5_0",
    number=1,
    link_layer="InfiniBand",
    state="ACTIVE",
    physical_state="LinkUp",
    rate=400 * 10**9,
    master_guid="0xa",
    counters=(
        PortCounter(name="link_downed", value=255),
        PortCounter(name="symbol_error", value=0),
    ),
)


def test_a_port_is_told_with_its_states_rate_and_counters() -> None:
    down = Port(adapter="mlx5_1", number=1, state="DOWN", physical_state="Polling")
    snapshot = of_node(room("gpu-01"), beat(ports=(UP, down, Port(adapter="mlx5_2", number=1))))
    assert by(values(snapshot, "llmgw_ib_port_active"), 1, 3, 4, 5) == {
        ("mlx5_0", "ACTIVE", "LinkUp", "InfiniBand"): 1,
        ("mlx5_1", "DOWN", "Polling", ""): 0,
    }
    assert by(values(snapshot, "llmgw_ib_port_rate_gbps"), 1) == {("mlx5_0",): 400.0}
    counters = values(snapshot, "llmgw_ib_port_counter_total")
    assert by(counters, 3) == {("link_downed",): 255, ("symbol_error",): 0}


def test_flaps_are_the_totals_that_the_control_plane_keeps() -> None:
    flaps = {"gpu-01": {"mlx5_0/1": 7, "mlx5_9/1": 1}, "gpu-02": {"mlx5_0/1": 2}}
    snapshot = of_node(room("gpu-01"), beat(ports=(UP,)), flaps=flaps)
    assert by(values(snapshot, "llmgw_ib_port_flaps_total"), 1) == {("mlx5_0",): 7}
    unknown = of_node(room("gpu-01"), beat(ports=(UP,)))
    assert values(unknown, "llmgw_ib_port_flaps_total") == {}


def on_fabric(*managers: SubnetManager, weights: tuple[WeightsHeld, ...] = ()) -> Inventory:
    return Inventory(subnet_managers=managers, weights=weights)


def test_a_fabric_with_a_master_and_a_standby_has_no_problem() -> None:
    managers = (
        SubnetManager(guid="0xa", state="master", master_guid="0xa"),
        SubnetManager(guid="0xb", state="standby", master_guid="0xa"),
    )
    one = room("gpu-01", inventory=on_fabric(*managers))
    snapshot = of_node(one, beat(ports=(UP,)))
    assert values(snapshot, "llmgw_fabric_master_sm") == {("0xa", "0xa"): 1}
    assert values(snapshot, "llmgw_fabric_subnet_managers") == {("0xa",): 2}
    assert values(snapshot, "llmgw_fabric_problems") == {
        ("0xa", "several_masters"): 0,
        ("0xa", "no_standby"): 0,
    }
    assert values(snapshot, "llmgw_fabric_nodes") == {("0xa",): 1}


def test_a_second_master_and_a_missing_standby_are_problems() -> None:
    managers = (
        SubnetManager(guid="0xa", state="master", master_guid="0xa"),
        SubnetManager(guid="0xb", state="master", master_guid="0xa"),
    )
    one = room("gpu-01", inventory=on_fabric(*managers))
    snapshot = of_node(one, beat(ports=(UP,)))
    assert values(snapshot, "llmgw_fabric_problems") == {
        ("0xa", "several_masters"): 1,
        ("0xa", "no_standby"): 1,
    }


def test_roce_is_a_fabric_without_subnet_managers() -> None:
    port = msgspec.structs.replace(UP, master_guid=None, network="10.1.0.0/24")
    snapshot = of_node(room("gpu-01"), beat(ports=(port,)))
    assert values(snapshot, "llmgw_fabric_nodes") == {("10.1.0.0/24",): 1}
    managed = ("llmgw_fabric_master", "llmgw_fabric_subnet", "llmgw_fabric_problems")
    assert named(snapshot, managed) == set()


def test_weights_of_a_fabric_are_counted_once_however_many_nodes_hold_them() -> None:
    held = (WeightsHeld(name="a", size_bytes=5, complete=True),
            WeightsHeld(name="half", size_bytes=3, complete=False))  # fmt: skip
    more = (*held, WeightsHeld(name="b", size_bytes=7))
    rooms = (
        room("n1", inventory=on_fabric(weights=held)),
        room("n2", inventory=on_fabric(weights=more)),
    )
    samples = {name: beat(name, ports=(UP,)) for name in ("n1", "n2")}
    snapshot = seen(rooms=rooms, samples=samples)
    assert values(snapshot, "llmgw_fabric_weights_bytes") == {("0xa",): 12}
    assert values(snapshot, "llmgw_fabric_nodes") == {("0xa",): 2}


def test_a_cluster_of_zeros_is_no_nvlink_domain() -> None:
    def told(**fields: object) -> dict[tuple[str, ...], float]:
        fabric = NvlinkFabric(**fields)  # type: ignore[arg-type]
        found = values(of_devices(Device(uuid="u", nvlink=fabric)), "llmgw_gpu_nvlink_joined")
        return by(found, 3, 4)

    zeros = "00000000-0000-0000-0000-000000000000"
    assert told(state="Completed", status="Success", cluster_uuid=zeros, clique_id=0) == {}
    assert told(state="Completed", status="Success") == {}
    real = "b2daed23-0000-0000-0000-000000000000"
    joined = told(state="Completed", status="Success", cluster_uuid=real, clique_id=4000000004)
    assert joined == {(real, "4000000004"): 1}
    assert told(state="In Progress", cluster_uuid=real) == {(real, ""): 0}
    assert told(state="Completed", status="Timeout", cluster_uuid=real) == {(real, ""): 0}


def test_imex_is_told_where_it_is_known() -> None:
    running = room("a", inventory=Inventory(nvlink_domain=NvlinkDomain(imex_running=True)))
    dead = room("b", inventory=Inventory(nvlink_domain=NvlinkDomain(imex_running=False)))
    unknown = room("c", inventory=Inventory(nvlink_domain=NvlinkDomain()))
    found = values(seen(rooms=(running, dead, unknown)), "llmgw_imex_up")
    assert found == {("a",): 1, ("b",): 0}
