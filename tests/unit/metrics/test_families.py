"""What a scrape says: absent is never zero, and every family is declared."""

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from llmgw.control.metrics.collector import FleetCollector, gather, render
from llmgw.control.metrics.families import FAMILIES
from llmgw.control.metrics.family import COUNTER, GAUGE, HISTOGRAM, Family, clean, collected
from llmgw.control.metrics.reference import NAME, reference
from llmgw.control.metrics.snapshot import OLD_SECONDS, Snapshot
from llmgw.model.device import Device, DeviceSample
from llmgw.model.gateway import Histogram, ModelTraffic, ReplyCount
from llmgw.model.node import Heartbeat, Inventory, Node, Sample
from llmgw.plan.records import Booking, NodeRoom
from tests import snapshots
from tests.fakes.clock import FakeClock
from tests.fakes.fleets import FLEETS, NOW, gpu8
from tests.fakes.plane import FakePlane

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference"

GIVEN_NAMES = {
    "llmgw_node_cpu_utilization_percent",
    "llmgw_gpu_sm_active_percent",
    "llmgw_gpu_sm_occupancy_active_percent",
    "llmgw_gpu_tensor_active_percent",
    "llmgw_gpu_dram_active_percent",
}
"""Percent where a base unit would be a ratio: these names are given from outside."""

BY_NAME = {family.name: family for family in FAMILIES}

EMPTY = Snapshot(
    now=NOW,
    cluster="lab",
    server="control-1",
    version="0.1.0",
    leader=True,
    term=3,
    followers=0,
    agents=0,
    rooms=(),
    samples=(),
    replicas=(),
    routes=(),
    gateways=(),
    traffic=(),
    passes={},
    plan=None,
    models_of={},
)


def seen(**changed: object) -> Snapshot:
    fields = {name: getattr(EMPTY, name) for name in EMPTY.__slots__}
    return Snapshot(**{**fields, **changed})


def values(snapshot: Snapshot, name: str) -> dict[tuple[str, ...], float]:
    """Return a family's samples by their labels' values, in the declared order."""
    family = BY_NAME[name]
    return {
        tuple(sample.labels[label] for label in family.labels): sample.value
        for sample in collected(family, snapshot).samples
    }


def room(node: str, *devices: Device, held: tuple[str, ...] = (), **fields: object) -> NodeRoom:
    known = {"liveness": "ready", **fields}
    record = Node(id=node, inventory=Inventory(devices=devices), **known)  # type: ignore[arg-type]
    return NodeRoom(node=record, bookings=(Booking(replica="m-1", rank=0, devices=held),))


def beat(node: str = "gpu-01", at: float = NOW, **fields: object) -> Sample:
    return Sample(id=node, at=at, heartbeat=Heartbeat(sequence=1, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_a_familys_name_says_its_kind_and_unit(family: Family) -> None:
    assert re.fullmatch(r"llmgw_[a-z][a-z0-9_]*[a-z0-9]", family.name)
    assert family.kind in {COUNTER, GAUGE, HISTOGRAM}
    assert family.name.endswith("_total") == (family.kind == COUNTER)
    assert not re.search(r"_(ms|mib|gib|mb|gb|mhz|minutes|hours|milli\w*)(_|$)", family.name)
    if family.name.endswith("_percent"):
        assert family.name in GIVEN_NAMES
    unit = family.unit.split()[0].rstrip(",")
    for suffix in ("bytes", "seconds", "watts", "hertz"):
        assert family.name.endswith(f"_{suffix}") == (unit == suffix), family.unit
    assert family.name.endswith("_celsius") == (family.unit == "degrees Celsius")
    assert family.name.endswith("_ratio") == (family.unit == "0 to 1")
    assert family.help.endswith(".")
    assert family.absent


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_labels_are_short_words_that_prometheus_does_not_use(family: Family) -> None:
    assert len(set(family.labels)) == len(family.labels)
    for label in family.labels:
        assert re.fullmatch(r"[a-z][a-z_]*", label)
        assert label not in {"le", "quantile", "job", "instance", "key", "token", "request"}


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(FAMILIES)


def test_the_required_names_are_there() -> None:
    required = """
        llmgw_build_info llmgw_leader llmgw_leader_term llmgw_replicas llmgw_replicas_wanted
        llmgw_requests_total llmgw_request_duration_seconds llmgw_time_to_first_token_seconds
        llmgw_tokens_total llmgw_requests_in_flight llmgw_request_retries_total
        llmgw_stream_aborts_total llmgw_node_cpu_utilization_percent llmgw_node_cpus
        llmgw_node_load llmgw_node_memory_bytes llmgw_node_memory_used_bytes
        llmgw_node_memory_available_bytes llmgw_shard_cpu_cores llmgw_shard_memory_bytes
        llmgw_certificate_expiry_timestamp_seconds
    """
    assert set(required.split()) <= set(BY_NAME)


@pytest.mark.parametrize("name", sorted(FLEETS))
async def test_every_sample_is_of_a_declared_family(name: str) -> None:
    plane = await FakePlane(FLEETS[name]()).prepare()
    plane.fake_gateways.traffic = {"m": traffic()}
    text = render(gather(plane)).decode()
    found = 0
    for metric in text_string_to_metric_families(text):
        if metric.name.startswith("process_"):
            continue
        family = BY_NAME.get(metric.name) or BY_NAME[f"{metric.name}_total"]
        assert metric.type == family.kind
        places = [(s.name, tuple(sorted(s.labels.items()))) for s in metric.samples]
        assert len(set(places)) == len(places)
        for sample in metric.samples:
            assert set(sample.labels) - {"le"} == set(family.labels)
            found += 1
    assert found > 20


async def test_a_whole_scrape_is_what_it_was() -> None:
    plane = await FakePlane(gpu8(), FakeClock(NOW)).prepare()
    plane.fake_gateways.traffic = {"qwen3-32b": traffic("qwen3-32b")}
    text = render(gather(plane)).decode()
    lines = [line for line in text.splitlines() if "process_" not in line]
    snapshots.same("metrics/gpu8.txt", "\n".join(lines) + "\n")


def test_nothing_measured_is_no_sample() -> None:
    silent = beat(devices=(DeviceSample(uuid="u"),))
    snapshot = seen(samples=(silent,), rooms=(room("gpu-01", Device(uuid="u")),))
    named = [m.name for m in FleetCollector(snapshot).collect() if m.name.startswith("llmgw")]
    of_node = ("llmgw_node_cpu", "llmgw_node_mem", "llmgw_node_load", "llmgw_node_file")
    assert not [name for name in named if name.startswith(of_node)]
    gpu = [name for name in named if name.startswith("llmgw_gpu")]
    assert gpu == ["llmgw_gpu_info"]


def test_a_zero_that_was_measured_is_zero() -> None:
    idle = DeviceSample(uuid="u", busy_percent=0.0, memory_used_bytes=0, ecc_uncorrected=0)
    sample = beat(cpu_percent=0.0, devices=(idle,))
    snapshot = seen(samples=(sample,), rooms=(room("gpu-01", Device(uuid="u", number=3)),))
    assert values(snapshot, "llmgw_node_cpu_utilization_percent") == {("gpu-01",): 0.0}
    assert values(snapshot, "llmgw_gpu_busy_ratio") == {("gpu-01", "3", "u"): 0.0}
    assert values(snapshot, "llmgw_gpu_memory_used_bytes") == {("gpu-01", "3", "u"): 0.0}
    assert values(snapshot, "llmgw_gpu_ecc_errors_total") == {
        ("gpu-01", "3", "u", "uncorrected"): 0.0
    }


def test_memory_used_needs_both_figures() -> None:
    name = "llmgw_node_memory_used_bytes"
    assert values(seen(samples=(beat(memory_bytes=8),)), name) == {}
    both = beat(memory_bytes=8, memory_available_bytes=5)
    assert values(seen(samples=(both,)), name) == {("gpu-01",): 3}


def test_a_measurement_older_than_a_minute_is_left_out() -> None:
    old = beat("old", NOW - OLD_SECONDS - 1, cpus=2)
    fresh = beat("fresh", NOW - OLD_SECONDS, cpus=2)
    assert values(seen(samples=(old, fresh)), "llmgw_node_cpus") == {("fresh",): 2}


def test_a_devices_own_reading_may_be_old_in_a_fresh_heartbeat() -> None:
    readings = (
        DeviceSample(uuid="a", power_watts=100.0, age=58.0),
        DeviceSample(uuid="b", power_watts=100.0, age=30.0),
    )
    snapshot = seen(samples=(beat(at=NOW - 3, devices=readings),))
    assert list(values(snapshot, "llmgw_gpu_power_watts")) == [("gpu-01", "", "b")]
    assert values(snapshot, "llmgw_gpu_reading_age_seconds") == {("gpu-01", "", "b"): 33.0}


def test_percent_and_megahertz_become_base_units() -> None:
    reading = DeviceSample(uuid="u", busy_percent=91.0, sm_clock_mhz=1980.0, fan_percent=40.0)
    snapshot = seen(samples=(beat(devices=(reading,)),))
    at = ("gpu-01", "", "u")
    assert values(snapshot, "llmgw_gpu_busy_ratio")[at] == pytest.approx(0.91)
    assert values(snapshot, "llmgw_gpu_sm_clock_hertz")[at] == 1.98e9
    assert values(snapshot, "llmgw_gpu_fan_ratio")[at] == pytest.approx(0.4)


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


def test_devices_are_counted_by_class() -> None:
    def gpu(uuid: str, **fields: object) -> Device:
        return Device(uuid=uuid, device_class="h100", **fields)  # type: ignore[arg-type]

    card = Device(uuid="card", device_class="a100", mig_enabled=True)
    part = Device(uuid="part", device_class="a100-mig", card_uuid="card")
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


async def test_refusals_are_told_by_the_rule_that_made_them() -> None:
    plane = await FakePlane(FLEETS["gpu8"]()).prepare()
    snapshot = gather(plane)
    name = "llmgw_placement_refusals"
    assert values(snapshot, name) == {("qwen3-32b", "memory", "never"): 2}
    assert values(snapshot, "llmgw_replicas_refused")["qwen3-32b",] == 1
    plane.last_plan = None
    assert values(gather(plane), name) == {}
    assert values(gather(plane), "llmgw_replicas_refused") == {}


def test_a_standby_exports_what_is_its_own_alone() -> None:
    rooms, samples = (room("a"),), (beat(cpus=2),)
    standby = seen(rooms=rooms, samples=samples, leader=False)
    assert exported(standby) <= {family.name for family in FAMILIES if family.always}
    assert values(standby, "llmgw_leader") == {(): 0}
    assert "llmgw_nodes" in exported(seen(rooms=rooms, samples=samples))


def exported(snapshot: Snapshot) -> set[str]:
    metrics = FleetCollector(snapshot).collect()
    return {metric.name for metric in metrics if metric.name.startswith("llmgw")}


def traffic(model: str = "m") -> ModelTraffic:
    return ModelTraffic(
        model=model,
        replies=(ReplyCount(code=200, count=7), ReplyCount(code=503, count=1)),
        duration=Histogram(bounds=(0.1, 1.0, 10.0), counts=(1, 4, 7, 8), sum=12.5),
        prompt_tokens=120,
        completion_tokens=340,
        retries=1,
        client_aborts=2,
        engine_aborts=0,
        in_flight=3,
    )


def test_traffic_is_told_as_counters_and_histograms() -> None:
    snapshot = seen(traffic=(traffic(),))
    assert values(snapshot, "llmgw_requests_total") == {("m", "200"): 7, ("m", "503"): 1}
    assert values(snapshot, "llmgw_tokens_total") == {
        ("m", "prompt"): 120,
        ("m", "completion"): 340,
    }
    assert values(snapshot, "llmgw_stream_aborts_total") == {("m", "client"): 2, ("m", "engine"): 0}
    metric = collected(BY_NAME["llmgw_request_duration_seconds"], snapshot)
    assert buckets(metric) == {"0.1": 1, "1.0": 4, "10.0": 7, "+Inf": 8}
    assert {s.value for s in metric.samples if s.name.endswith("_sum")} == {12.5}
    assert {s.value for s in metric.samples if s.name.endswith("_count")} == {8}
    assert collected(BY_NAME["llmgw_time_to_first_token_seconds"], snapshot).samples == []


def buckets(metric: Metric) -> dict[str, float]:
    return {s.labels["le"]: s.value for s in metric.samples if s.name.endswith("_bucket")}


def test_no_traffic_is_no_sample() -> None:
    assert not [name for name in exported(EMPTY) if "request" in name or "token" in name]


def test_control_characters_do_not_reach_the_text() -> None:
    odd = 'm\n\x1b[31m\u202e\x00\\"\ud800é'
    snapshot = seen(traffic=(traffic(odd),))
    text = render(snapshot).decode()
    line = next(line for line in text.splitlines() if line.startswith("llmgw_requests_in_flight{"))
    assert line == 'llmgw_requests_in_flight{model="m??[31m??\\\\\\"?é"} 3.0'


def test_two_that_become_the_same_are_told_once() -> None:
    snapshot = seen(traffic=(traffic("m\n"), traffic("m\t")))
    assert values(snapshot, "llmgw_requests_in_flight") == {("m?",): 3}
    assert list(text_string_to_metric_families(render(snapshot).decode()))


@given(st.text(max_size=300))
def test_any_text_is_fit_for_a_label(text: str) -> None:
    cleaned = clean(text)
    assert len(cleaned) <= 256
    assert cleaned.isprintable()
    cleaned.encode()
    assert clean(cleaned) == cleaned


def test_the_kept_reference_is_what_the_code_says() -> None:
    kept = (DOCS / NAME).read_text()
    assert kept == reference(), "run: python -m llmgw.control.metrics.reference"


def test_the_reference_has_a_row_for_each_family() -> None:
    rows = [line for line in reference().splitlines() if line.startswith("| `llmgw_")]
    assert [row.split("`")[1] for row in rows] == [family.name for family in FAMILIES]
    assert all(row.count("|") == 8 for row in rows)


async def test_what_is_gathered_is_of_one_moment() -> None:
    plane = await FakePlane(FLEETS["cpu_serving"]()).prepare()
    snapshot = gather(plane)
    before = render_without_process(snapshot)
    node = plane.fake_fleet.nodes()[0]
    plane.fake_fleet.put("nodes", node.id, msgspec.structs.replace(node, liveness="lost"))
    assert render_without_process(snapshot) == before
    assert render_without_process(gather(plane)) != before


def render_without_process(snapshot: Snapshot) -> list[str]:
    return [line for line in render(snapshot).decode().splitlines() if "process_" not in line]
