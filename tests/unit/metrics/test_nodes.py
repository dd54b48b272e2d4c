"""Nodes: cores, memory, disks, weights, sensors, sources of facts, ports and fabrics."""

import msgspec
import pytest

from llmgw.control.current import OLD_SECONDS, READ_BY
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.model.condition import fabric_facts
from llmgw.model.device import Device, NvlinkFabric
from llmgw.model.fabric import NvlinkDomain, Port, PortCounter, SubnetManager
from llmgw.model.node import Filesystem, Host, Inventory, ProbeState, Sensor, WeightsHeld
from llmgw.model.shard import ShardUse
from llmgw.plan.records import Booking, NodeRoom
from tests.fakes.fleet_parts import GB, NOW
from tests.unit.metrics.scraped import (
    beat,
    by,
    named,
    of_devices,
    of_node,
    parsed,
    room,
    seen,
    values,
)


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


def test_a_measurement_is_as_old_as_its_source_says_and_its_heartbeat() -> None:
    def told(age: float) -> set[str]:
        probes = tuple(ProbeState(name=name, age=age) for name in READ_BY)
        said = beat(
            at=NOW - 20,
            cpus=2,
            cpu_percent=1.0,
            memory_bytes=8,
            memory_available_bytes=5,
            filesystems=(Filesystem(mount="/", total_bytes=10, free_bytes=4),),
            shards=(ShardUse(replica="m-1", cpu_cores=1.0),),
            sensors=(Sensor(kind="temperature", label="Inlet", value=20.0),),
            ports=(UP,),
            probes=probes,
        )
        everything = named(of_node(room("gpu-01"), said), ("llmgw_node", "llmgw_shard", "llmgw_ib"))
        return everything - named(of_node(room("gpu-01"), beat()))

    assert told(40.0) == {
        "llmgw_node_cpus",
        "llmgw_node_cpu_utilization_percent",
        "llmgw_node_memory_bytes",
        "llmgw_node_memory_used_bytes",
        "llmgw_node_memory_available_bytes",
        "llmgw_node_filesystem_bytes",
        "llmgw_node_filesystem_free_bytes",
        "llmgw_shard_cpu_cores",
        "llmgw_node_temperature_celsius",
        "llmgw_ib_port_active",
        "llmgw_ib_port_rate_gbps",
        "llmgw_ib_port_counter_total",
        "llmgw_ib_port_master",
    }
    assert told(40.1) == set()


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
    uses = (ShardUse(replica="m-1", cpu_cores=5.2, memory_bytes=9),)
    snapshot = of_node(room("gpu-01"), beat(shards=uses), models_of={"m-1": "m"})
    assert values(snapshot, "llmgw_shard_cpu_cores") == {("gpu-01", "m-1", "0", "m"): 5.2}
    assert values(snapshot, "llmgw_shard_memory_bytes") == {("gpu-01", "m-1", "0", "m"): 9}
    silent = beat(shards=(ShardUse(replica="m-1"),))
    assert named(of_node(room("gpu-01"), silent), "llmgw_shard") == set()


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


@pytest.mark.parametrize(
    "port",
    [
        msgspec.structs.replace(UP, master_guid=None),
        msgspec.structs.replace(UP, state="DOWN", master_guid=None),
        msgspec.structs.replace(UP, master_guid="0xc"),
    ],
)
def test_managers_of_a_master_that_no_port_sees_any_more_make_no_fabric(port: Port) -> None:
    managers = (
        SubnetManager(guid="0xa", state="master", master_guid="0xa"),
        SubnetManager(guid="0xb", state="standby", master_guid="0xa"),
    )
    one = room("gpu-01", inventory=on_fabric(*managers))
    found = parsed(of_node(one, beat(ports=(port,))))
    fabrics = {
        sample.labels["fabric"]
        for name, metric in found.items()
        if name.startswith("llmgw_fabric_")
        for sample in metric.samples
    }
    assert fabrics == ({"0xc"} if port.master_guid else set())


def test_ports_that_could_not_be_read_for_a_minute_make_no_fabric() -> None:
    managers = (SubnetManager(guid="0xa", state="master", master_guid="0xa"),)
    has = Inventory(ports=(UP,), subnet_managers=managers)
    assert named(of_node(room("gpu-01", inventory=has)), "llmgw_fabric") != set()
    assert named(of_node(room("gpu-01", inventory=has), beat()), "llmgw_fabric") == set()
    old = beat(at=NOW - 10, ports=(UP,), probes=(ProbeState(name="ports", age=51.0),))
    assert named(of_node(room("gpu-01", inventory=has), old), ("llmgw_fabric", "llmgw_ib")) == set()


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


REAL = "b2daed23-0000-0000-0000-000000000000"
IN_DOMAIN = NvlinkFabric(state="Completed", status="Success", cluster_uuid=REAL, clique_id=1)
OPEN = NvlinkDomain(imex_running=True, imex_channels=("channel0",))


def in_domain(fabric: NvlinkFabric, domain: NvlinkDomain | None) -> Snapshot:
    device = Device(uuid="u", nvlink=fabric)
    return of_devices(device, inventory=Inventory(devices=(device,), nvlink_domain=domain))


def test_a_cluster_of_zeros_is_no_nvlink_domain() -> None:
    def told(**fields: object) -> dict[tuple[str, ...], float]:
        fabric = NvlinkFabric(**fields)  # type: ignore[arg-type]
        return by(values(in_domain(fabric, OPEN), "llmgw_gpu_nvlink_joined"), 3, 4)

    zeros = "00000000-0000-0000-0000-000000000000"
    assert told(state="Completed", status="Success", cluster_uuid=zeros, clique_id=0) == {}
    assert told(state="Completed", status="Success") == {}
    real = "b2daed23-0000-0000-0000-000000000000"
    joined = told(state="Completed", status="Success", cluster_uuid=real, clique_id=4000000004)
    assert joined == {(real, "4000000004"): 1}
    assert told(state="In Progress", cluster_uuid=real) == {(real, ""): 0}
    assert told(state="Completed", status="Timeout", cluster_uuid=real) == {(real, ""): 0}


@pytest.mark.parametrize("running", [True, False, None])
@pytest.mark.parametrize("channels", [("channel0",), (), None])
def test_a_device_has_joined_where_people_are_told_that_it_has(
    running: bool | None, channels: tuple[str, ...] | None
) -> None:
    domain = NvlinkDomain(imex_running=running, imex_channels=channels)
    found = values(in_domain(IN_DOMAIN, domain), "llmgw_gpu_nvlink_joined")
    (fact,) = fabric_facts(IN_DOMAIN, domain)
    if "not proven" in fact.words:
        assert found == {}
    else:
        assert by(found, 3) == {(REAL,): 0 if "not joined" in fact.words else 1}


def test_channels_of_imex_are_counted_where_they_are_known() -> None:
    def told(channels: tuple[str, ...] | None) -> dict[tuple[str, ...], float]:
        domain = NvlinkDomain(imex_channels=channels)
        return values(in_domain(IN_DOMAIN, domain), "llmgw_imex_channels")

    assert told(("channel0", "channel1")) == {("gpu-01",): 2}
    assert told(()) == {("gpu-01",): 0}
    assert told(None) == {}


def test_imex_is_told_where_it_is_known() -> None:
    running = room("a", inventory=Inventory(nvlink_domain=NvlinkDomain(imex_running=True)))
    dead = room("b", inventory=Inventory(nvlink_domain=NvlinkDomain(imex_running=False)))
    unknown = room("c", inventory=Inventory(nvlink_domain=NvlinkDomain()))
    found = values(seen(rooms=(running, dead, unknown)), "llmgw_imex_up")
    assert found == {("a",): 1, ("b",): 0}
