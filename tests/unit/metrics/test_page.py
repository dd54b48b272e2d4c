"""A whole scrape: complete, said once, and what Prometheus's own client reads of it."""

import dataclasses
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from prometheus_client.parser import text_string_to_metric_families

from llmgw.control.metrics import page
from llmgw.control.metrics.collector import gather, render
from llmgw.control.metrics.families import FAMILIES
from llmgw.control.metrics.family import ALL, COUNTER, HISTOGRAM, SETTLED, Family, FleetFamily
from llmgw.control.metrics.onenode import OneNode
from llmgw.control.metrics.page import Page
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.control.metrics.tally import Tally
from llmgw.model.gateway import ModelTraffic
from llmgw.model.node import Heartbeat, Inventory, Node, Sample
from llmgw.plan.records import NodeRoom
from tests import snapshots
from tests.fakes.fleet_parts import NOW
from tests.fakes.fleets import FLEETS
from tests.fakes.plane import FakePlane
from tests.fakes.whole_scrape import whole_scrape
from tests.unit.metrics.scraped import BY_NAME, EMPTY, beat, named, of_node, parsed, room, seen
from tests.unit.proto.messages import any_record

WHOLE = whole_scrape()
OF_THE_FLEET = (
    "llmgw_nodes",
    "llmgw_devices",
    "llmgw_replicas",
    "llmgw_placement",
    "llmgw_fabric",
)
READ_BACK = parsed(WHOLE)


def test_the_whole_scrape_has_a_sample_of_every_family_and_of_no_other() -> None:
    assert set(READ_BACK) == set(BY_NAME)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_a_family_is_read_back_with_its_kind_words_labels_and_values(family: Family) -> None:
    metric = READ_BACK[family.name]
    assert (metric.type, metric.documentation) == (family.kind, family.help)
    for sample in metric.samples:
        assert set(sample.labels) - {"le"} == set(family.labels)
    if family.kind != HISTOGRAM:
        assert [sample.value for sample in metric.samples] == told(family)


def told(family: Family) -> list[float]:
    """Return what a family says of the whole scrape, straight from its reader."""
    tally, samples = Tally(), []
    for one in WHOLE.rooms:
        sample, flaps = WHOLE.samples.get(one.node.id), WHOLE.flaps.get(one.node.id)
        node = OneNode(one, sample, WHOLE.now, WHOLE.models_of, flaps)
        tally.add(node)
        if not isinstance(family, FleetFamily):
            samples += list(family.read(node))  # type: ignore[attr-defined]
    if isinstance(family, FleetFamily):
        samples = list(family.read(WHOLE, tally))
    return [value for _, value in samples if value is not None]


def test_a_counter_keeps_its_name_in_the_text() -> None:
    text = render(WHOLE).decode()
    for family in FAMILIES:
        assert f"# TYPE {family.name} {family.kind}\n" in text
        if family.kind == COUNTER:
            assert f"\n{family.name}{{" in text


@pytest.mark.parametrize("name", sorted(FLEETS))
async def test_every_sample_is_of_a_declared_family_and_said_once(name: str) -> None:
    plane = await FakePlane(FLEETS[name]()).prepare()
    plane.fake_gateways.traffic = {"m": ModelTraffic(model="m")}
    assert is_sound(gather(plane)) > 20


def is_sound(snapshot: Snapshot) -> int:
    """Check what makes Prometheus refuse a scrape; return how many samples there are."""
    found = 0
    for name, metric in parsed(snapshot).items():
        places = [(one.name, tuple(sorted(one.labels.items()))) for one in metric.samples]
        assert len(set(places)) == len(places), name
        for sample in metric.samples:
            assert set(sample.labels) - {"le"} == set(BY_NAME[name].labels)
            found += 1
    return found


def test_what_a_node_says_twice_is_told_once() -> None:
    once = parsed(WHOLE)
    twice = parsed(doubled(WHOLE))
    is_sound(doubled(WHOLE))
    for name, metric in once.items():
        if BY_NAME[name].labels[:1] == ("node",):
            assert twice[name].samples == metric.samples, name


def doubled(snapshot: Snapshot) -> Snapshot:
    """Return a moment at which every list of every node has everything twice."""
    samples = {
        name: msgspec.structs.replace(one, heartbeat=_twice(one.heartbeat))
        for name, one in snapshot.samples.items()
    }
    rooms = tuple(
        msgspec.structs.replace(
            one,
            node=msgspec.structs.replace(one.node, inventory=_twice(one.node.inventory)),
        )
        for one in snapshot.rooms
    )
    return dataclasses.replace(
        snapshot,
        rooms=rooms,
        samples=samples,
        traffic=snapshot.traffic * 2,
        routes=snapshot.routes * 2,
        gateways=snapshot.gateways * 2,
    )


def _twice(record: Any) -> Any:
    lists = {
        name: value * 2
        for name in record.__struct_fields__
        if isinstance(value := getattr(record, name), tuple) and name != "weights"
    }
    return msgspec.structs.replace(record, **lists)


@given(heartbeat=any_record(Heartbeat), inventory=any_record(Inventory))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_whatever_a_node_says_the_scrape_is_read(
    heartbeat: Heartbeat, inventory: Inventory
) -> None:
    node = Node(id="n", liveness="ready", inventory=inventory)
    sample = Sample(id="n", at=NOW, heartbeat=heartbeat)
    assert is_sound(of_node(NodeRoom(node=node), sample)) > 0


def test_two_models_that_become_the_same_are_told_once() -> None:
    snapshot = seen(traffic=(ModelTraffic(model="m\n"), ModelTraffic(model="m\t")))
    is_sound(snapshot)
    assert len(parsed(snapshot)["llmgw_requests_in_flight"].samples) == 1


def test_the_whole_scrape_is_what_it_was() -> None:
    snapshots.same("metrics/whole.txt", render(WHOLE).decode())


def test_a_standby_exports_what_is_its_own_alone() -> None:
    standby = dataclasses.replace(WHOLE, leader=False)
    assert named(standby) == {family.name for family in FAMILIES if family.by == ALL}
    assert parsed(standby)["llmgw_leader"].samples[0].value == 0


def test_a_new_leader_tells_no_sum_before_its_agents_have_reported() -> None:
    unsettled = dataclasses.replace(WHOLE, settled=False)
    missing = set(BY_NAME) - named(unsettled)
    assert missing == {family.name for family in FAMILIES if family.by == SETTLED}
    whole = {f.name for f in FAMILIES if f.name.startswith(OF_THE_FLEET)}
    assert whole
    assert whole <= missing
    assert parsed(unsettled)["llmgw_leader_settled"].samples[0].value == 0


def test_an_empty_fleet_has_no_family_without_a_sample() -> None:
    text = render(EMPTY).decode()
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert set(names) == named(EMPTY)
    assert "llmgw_gpu" not in text


def test_the_work_comes_in_steps_of_one_node_or_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms = tuple(room(f"n{number}") for number in range(50))
    snapshot = seen(rooms=rooms, samples={one.node.id: beat(one.node.id) for one in rooms})
    whole = render(snapshot)
    monkeypatch.setattr(page, "PIECE", 1000)
    made = Page(snapshot, FAMILIES)
    assert len(list(made.steps())) == 50 + len(made.pieces)
    assert b"".join(made.pieces) == whole
    assert max(map(len, made.pieces)) < 2000


async def test_what_is_gathered_is_of_one_moment() -> None:
    plane = await FakePlane(FLEETS["cpu_serving"]()).prepare()
    snapshot = gather(plane)
    before = render(snapshot)
    node = plane.fake_fleet.nodes()[0]
    plane.fake_fleet.put("nodes", node.id, msgspec.structs.replace(node, liveness="lost"))
    assert render(snapshot) == before
    assert render(gather(plane)) != before


def test_the_client_of_prometheus_reads_as_many_samples_as_there_are_lines() -> None:
    text = render(WHOLE).decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    metrics = text_string_to_metric_families(text)
    assert sum(len(metric.samples) for metric in metrics) == len(lines)
