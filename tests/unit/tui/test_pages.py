"""Pages from recorded fleets: they fit, they say why, and nothing unknown is a number."""

import dataclasses
import re

import msgspec
import pytest

from llmgw.base.units import show_seconds
from llmgw.model.fabric import SubnetManager
from llmgw.model.node import Node
from llmgw.model.trouble import troubles
from llmgw_tui.draw import capacity, details, node, nodes, overview, replicas, status
from llmgw_tui.draw.page import PageLine, marked
from llmgw_tui.draw.places import MODEL, NODE, Place
from llmgw_tui.draw.seen import NodeSeen, When
from llmgw_tui.draw.states import State
from llmgw_tui.draw.table import Gauge
from llmgw_tui.draw.text import Pieces, pieces_width, said
from llmgw_tui.store.fleet import Fleet
from llmgw_tui.store.query import read_filter
from tests.fakes.fleets import FLEETS
from tests.unit.tui.seen import fleet_of


def _text(lines: list[PageLine] | tuple[PageLine, ...]) -> str:
    return "\n".join("".join(piece.text for piece in line.pieces) for line in lines)


def _words(pieces: Pieces) -> str:
    return "".join(piece.text for piece in pieces)


@pytest.mark.parametrize("fleet", FLEETS)
@pytest.mark.parametrize("size", [(40, 6), (76, 20), (116, 36), (196, 56)])
def test_the_overview_fits_its_room_and_its_width(fleet: str, size: tuple[int, int]) -> None:
    known, when = fleet_of(fleet)
    page = overview.page(known.seen(), when, *size)
    assert len(page) <= size[1]
    assert all(pieces_width(line.pieces) in {0, size[0]} for line in page)


def test_the_overview_answers_the_four_questions() -> None:
    fleet, when = fleet_of("mixed")
    page = overview.page(fleet.seen(), when, 180, 50)
    text = _text(page)
    assert "partly serving" in text, "is it serving"
    assert "48/128" in text, "what is full"
    assert "cpu-11" in text, "what is sick"
    assert "gpu-13: 4 devices free, needs 8" in text, "why is it not running"
    targets = {spot.target for line in page for spot in line.spots}
    assert {Place(MODEL, "qwen3-235b"), Place(NODE, "cpu-11")} <= targets


@pytest.mark.parametrize(
    ("fleet", "word"),
    [
        ("empty", "no nodes yet"),
        ("cpu_starting", "starting"),
        ("cpu_serving", "serving"),
        ("gpu8", "partly serving"),
    ],
)
def test_the_headline_says_whether_it_serves(fleet: str, word: str) -> None:
    known, _ = fleet_of(fleet)
    assert overview.verdict(known.seen()).word == word


def test_progress_shows_a_percentage_only_with_a_total() -> None:
    fleet, when = fleet_of("cpu_starting")
    replica = next(iter(fleet.replicas.values()))
    page = details.replica_page(replica, fleet.nodes, {}, when, width=80, height=30)
    assert "62% (158 MB of 253 MB)" in _text(page)
    known, _ = fleet_of("mixed")
    loading = known.replicas["mistral-small-aa0001"]
    assert _words(replicas.row(loading, known.nodes, {}, when).cells["note"]) == "loading weights"  # type: ignore[arg-type]


def test_a_node_of_which_nothing_is_known_shows_no_number() -> None:
    seen, when = NodeSeen(Node(id="new", liveness="ready")), When(0.0)
    row = nodes.row(seen, when)
    for key in ("cpu", "ram", "gpu"):
        cell = row.cells[key]
        assert isinstance(cell, Gauge)
        assert (cell.share, cell.words.strip()) == (None, "-")
    for key in ("gpus", "load", "class", "engines", "disk", "address", "agent"):
        cell = row.cells[key]
        assert not isinstance(cell, Gauge)
        assert _words(cell) == "-", key
    text = _text(node.page(seen, when, 80, 40))
    assert "0%" not in text
    assert "the node has not looked yet" in text
    assert "this node cannot say" in text


def test_a_lost_nodes_last_readings_are_not_shown_as_if_they_were_now() -> None:
    fleet, when = fleet_of("mixed")
    seen = fleet.node("cpu-11")
    assert seen is not None
    assert seen.sample is not None
    assert seen.cpu_share is None
    assert "last heard 2h02m ago" in _words(nodes.note(seen, when))


@pytest.mark.parametrize(
    ("health", "shown"), [(("hot",), "hot"), (("hot", "full", "slow"), "hot (+2)")]
)
def test_the_first_thing_that_is_wrong_with_a_node_is_said_and_the_others_are_counted(
    health: tuple[str, ...], shown: str
) -> None:
    fleet, when = fleet_of("mixed")
    seen = fleet.node("gpu-01")
    assert seen is not None
    sick = msgspec.structs.replace(seen.node, health=health)
    assert _words(nodes.note(dataclasses.replace(seen, node=sick), when)) == shown


def test_a_card_that_computes_on_the_cpu_is_a_warning() -> None:
    fleet, _ = fleet_of("gpu8")
    replica = fleet.replicas["qwen3-32b-d4e5f6"]
    changed = msgspec.json.decode(msgspec.json.encode(replica))
    changed["shards"][0]["compute"]["back_end"] = "CPU"
    assert replicas.computes_on(replica)[0].role == "text"
    assert replicas.computes_on(msgspec.convert(changed, type(replica)))[0].role == "warn"


def test_capacity_counts_free_held_sick_foreign_and_away_devices() -> None:
    fleet, _ = fleet_of("gpu8")
    (only,) = capacity.classes(fleet.seen().nodes)
    assert (only.devices, only.held, only.sick, only.away, only.free) == (8, 6, 1, 0, 0)
    assert only.foreign == 1


def test_foreign_processes_and_sick_devices_are_named() -> None:
    fleet, when = fleet_of("gpu8")
    seen = fleet.node("gpu-01")
    assert seen is not None
    text = _text(node.page(seen, when, 100, 60))
    assert "not ours: pid 90210 python train.py" in text
    assert "XID 79 once, last 10m ago: GPU has fallen off the bus; reboot the machine" in text


def test_fabrics_of_which_no_administrator_tells_say_so() -> None:
    fleet, when = fleet_of("gpu8")
    seen = fleet.node("gpu-01")
    assert seen is not None
    silent = msgspec.structs.replace(seen.node.inventory, subnet_managers=())
    changed = msgspec.structs.replace(seen.node, inventory=silent)
    text = _text(node.page(dataclasses.replace(seen, node=changed), when, 120, 60))
    assert "others not known: no subnet administrator answers saquery" in text


def test_what_is_wrong_with_many_devices_is_said_once() -> None:
    fleet, when = fleet_of("gpu8")
    seen = fleet.node("gpu-01")
    assert seen is not None
    assert seen.sample is not None
    beat = seen.sample.heartbeat
    hot = tuple(
        msgspec.structs.replace(reading, throttle_reasons=("heat (hardware)",))
        for reading in beat.devices or ()
    )
    beat = msgspec.structs.replace(beat, devices=hot)
    hot_node = dataclasses.replace(
        seen, sample=msgspec.structs.replace(seen.sample, heartbeat=beat)
    )
    text = _text(node.page(hot_node, when, 100, 60))
    assert text.count("slowed down: heat") == 1
    assert "▲ gpu0-gpu4, gpu6, gpu7: slowed down: heat (hardware)" in text


def throttled(fleet: Fleet, node: str) -> None:
    """Let the first card of a node be slowed down by heat."""
    sample = fleet.samples[node]
    first, *others = sample.heartbeat.devices or ()
    hot = msgspec.structs.replace(first, throttle_reasons=("heat (hardware)",))
    beat = msgspec.structs.replace(sample.heartbeat, devices=(hot, *others))
    fleet.samples[node] = msgspec.structs.replace(sample, heartbeat=beat)


def test_a_card_that_is_slowed_down_makes_its_node_sick_everywhere() -> None:
    fleet, when = fleet_of("mixed")
    before = fleet.node("gpu-05")
    assert before is not None
    assert before.state.word == "serving"
    throttled(fleet, "gpu-05")
    seen = fleet.node("gpu-05")
    assert seen is not None
    assert seen.state == State("degraded", "warn")
    words = "gpu0: slowed down: heat (hardware)"
    assert _words(nodes.note(seen, when)) == words
    assert read_filter("heat").keeps(nodes.row(seen, when))
    text = _text(overview.page(fleet.seen(), when, 200, 60))
    assert re.search(rf"▲ degraded +gpu-05 +{re.escape(words)}", text)


def test_a_source_of_facts_that_fails_makes_its_node_sick() -> None:
    fleet, when = fleet_of("mixed")
    seen = fleet.node("a100-08")
    assert seen is not None
    assert seen.state == State("degraded", "warn")
    text = _text(overview.page(fleet.seen(), when, 200, 60))
    assert re.search(r"▲ degraded +a100-08 +probe nvidia-smi fails: no answer in 10 s", text)


@pytest.mark.parametrize("name", FLEETS)
def test_the_console_has_the_verdict_of_ctl_nodes(name: str) -> None:
    fleet, when = fleet_of(name)
    for one in fleet.seen().nodes:
        beat = one.sample.heartbeat if one.sample else None
        told = troubles(one.node, beat, now=when.now, ages=show_seconds)
        assert len(one.troubles(when)) == len(told)
        assert (one.state.word == "degraded") <= bool(told)


def test_the_chosen_part_of_a_line_is_marked_and_the_rest_is_not() -> None:
    pieces = marked(said("abcdef", ("ghi", "dim")), 2, 3, "cursor")
    assert pieces == (("ab", "text"), ("cde", "text@cursor"), ("f", "text"), ("ghi", "dim"))


def test_how_fresh_it_is_has_a_word_and_an_age() -> None:
    assert _words(status.link("live", 10.0, 12.0)) == "● live"
    assert _words(status.link("reconnecting", 10.0, 22.0)) == "◐ reconnecting 12s"
    assert _words(status.link("reconnecting", 10.0, 13.7)) == "◐ reconnecting 3s"
    assert _words(status.link("reconnecting", None, 22.0)) == "◐ connecting"
    assert _words(status.link("stale", 10.0, 250.0)) == "? stale 4m00s"
    assert _words(status.link("refused", None, 9.0)) == "✖ refused"


def test_the_side_bar_shows_counts_and_where_trouble_is() -> None:
    fleet, _ = fleet_of("mixed")
    entries = {entry.title: entry for entry in status.entries(status.counts(fleet.seen()), "nodes")}
    assert entries["Nodes"].note == "40"
    assert entries["Nodes"].alarm == "down"
    assert entries["Nodes"].here
    quiet = status.entries({}, "overview")
    assert all(not entry.alarm for entry in quiet)


def test_a_reason_takes_several_lines_where_there_is_room_and_is_cut_where_not() -> None:
    fleet, when = fleet_of("mixed")
    tight = _text(overview.page(fleet.seen(), when, 80, 20))
    assert "gpu-13: 4 devices free, needs 8; gpu…" in tight
    roomy = _text(overview.page(fleet.seen(), when, 80, 60))
    assert "22 more" in roomy
    assert "…" not in "\n".join(line for line in roomy.splitlines() if "qwen3" in line)


@pytest.mark.parametrize("room", range(1, 40))
def test_sections_that_share_a_page_never_take_more_than_there_is(room: int) -> None:
    fleet, when = fleet_of("mixed")
    assert len(overview.page(fleet.seen(), when, 80, room)) <= max(room, 1)


def test_what_is_left_out_is_counted() -> None:
    fleet, when = fleet_of("mixed")
    page = _text(overview.page(fleet.seen(), when, 80, 14))
    assert "more" in next(line for line in page.splitlines() if line.startswith("Models"))


def test_an_event_names_its_subject_once() -> None:
    fleet, when = fleet_of("cpu_serving")
    text = _text(overview.page(fleet.seen(), when, 120, 30))
    assert "atlas registered from 127.0.0.1" in text
    assert "atlas atlas" not in text


def test_what_a_node_says_of_a_subnet_manager_steers_no_terminal() -> None:
    known, when = fleet_of("gpu8")
    seen = known.seen().nodes[0]
    hostile = SubnetManager(guid="0x1\x1b[2J", state="master\x1b]0;x\x07\r\n", adapter="a\x00")
    inventory = msgspec.structs.replace(seen.node.inventory, subnet_managers=(hostile,))
    seen = dataclasses.replace(seen, node=msgspec.structs.replace(seen.node, inventory=inventory))
    drawn = _text(node.page(seen, when, 120, 60))
    assert "manager" in drawn
    assert all(one.isprintable() or one == "\n" for one in drawn)
