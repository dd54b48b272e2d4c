"""Whatever a record holds: nothing steers the terminal, nothing is markup, every line fits."""

import re
import shlex
from collections.abc import Iterator, Mapping

import msgspec
import pytest
from textual.strip import Strip

from llmgw.client.interface import LIVE, Change, Connection, WatchBatch
from llmgw_tui import palette
from llmgw_tui.dialogs.pick import Pick
from llmgw_tui.draw import details, models, node, nodes, overview, replicas, status, table, trends
from llmgw_tui.draw.page import PageLine, as_line
from llmgw_tui.draw.seen import When
from llmgw_tui.draw.table import Column, Row
from llmgw_tui.draw.text import Line
from llmgw_tui.store.fleet import TOPICS, Fleet
from llmgw_tui.store.past import Past
from llmgw_tui.themes.paint import Paint
from llmgw_tui.themes.palette import PALETTES
from tests.fakes.conditions import past
from tests.fakes.feed import FakeFeed, built
from tests.fakes.fleet_parts import NOW, RecordedFleet
from tests.fakes.fleets import FLEETS
from tests.fakes.poison import (
    HAZARDS,
    NUMBERS,
    WHOLE,
    filled,
    hazardous,
    mapped,
    places,
    shortened,
    steering,
    with_put,
)
from tests.flow.tui.stage import staged
from tests.flow.tui.test_snapshots import SCREENS

Records = dict[str, dict[str, object]]
SIZES = ((80, 24), (130, 40))
ENDLESS = re.compile(r"\d{25}")
"""More digits than any number has that is told on a line."""


def recorded(name: str) -> Records:
    """Return a recorded fleet with every field filled in, and of each list the beginning."""
    topics = FLEETS[name]().topics
    return {
        topic: {
            id_: shortened(filled(one)) if isinstance(one, msgspec.Struct) else one
            for id_, one in records.items()
        }
        for topic, records in topics.items()
        if topic in TOPICS
    }


FLEET = recorded("gpu8")
PLACES = sorted(
    {place for records in FLEET.values() for one in records.values() for place in places(one)}
)
FIGURES = sorted(
    {
        place
        for records in FLEET.values()
        for one in records.values()
        for place in places(one, (int, float))
    }
)


class Hands:
    """What the palette of commands works with."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def go(self, place: object) -> None:
        """Stay."""

    use = act = go


def fleet_of(records: Records) -> Fleet:
    fleet = Fleet()
    changes = tuple(
        Change(topic, id_, built(one))
        for topic, some in records.items()
        for id_, one in some.items()
    )
    fleet.take(WatchBatch(Connection(LIVE, NOW, NOW), changes, listing=True))
    assert not fleet.unreadable
    return fleet


def drawn(fleet: Fleet, *sizes: tuple[int, int]) -> Iterator[tuple[str, Line, int]]:
    """Yield every line of every screen, with its name and width."""
    when = When(NOW)
    for width, height in sizes:
        for name, lines in _pages(fleet, when, width, height):
            for line in lines:
                yield name, as_line(line, width), width
        for name, columns, rows in _tables(fleet, when):
            layout = table.lay_out(columns, table.natural_widths(columns, rows), width)
            for row in rows:
                yield name, table.compose(row, layout, width), width
        # The palette is asked for as Console would, but for what keys do.
        pick = Pick("Command", lambda text: palette.choices(Hands(fleet), text))
        yield from (("palette", row, width) for row in pick.draw(width, height))


def _pages(
    fleet: Fleet, when: When, width: int, height: int
) -> Iterator[tuple[str, list[PageLine]]]:
    seen = fleet.seen()
    yield "overview", overview.page(seen, when, width, height)
    yield "edges", [PageLine(status.health(seen)), PageLine(status.link("live", NOW, NOW))]
    status.counts(seen)
    for one in seen.nodes:
        told = past(one.sample, 10, NOW)
        choice = trends.Choice(series="power" if width > SIZES[0][0] else "")
        yield "node", node.page(one, when, width, 400, past=Past(told).seen(), choice=choice)
    for replica in seen.replicas:
        uses = fleet.uses((replica,))
        yield (
            "replica",
            details.replica_page(replica, fleet.nodes, uses, when, width=width, height=height),
        )
    for model in seen.models:
        yield "model", details.model_page(model, when, width, height)


def _tables(fleet: Fleet, when: When) -> Iterator[tuple[str, tuple[Column, ...], list[Row]]]:
    seen = fleet.seen()
    yield "nodes", nodes.COLUMNS, [nodes.row(one, when) for one in seen.nodes]
    yield (
        "replicas",
        replicas.COLUMNS,
        [replicas.row(one, fleet.nodes, fleet.uses((one,)), when) for one in seen.replicas],
    )
    yield "models", models.COLUMNS, [models.row(one, when) for one in seen.models]


def complaints(fleet: Fleet, *sizes: tuple[int, int]) -> list[str]:
    """Return what is wrong with what the terminal gets."""
    paint = Paint(PALETTES["dark"])
    found: list[str] = []
    for name, line, width in drawn(fleet, *(sizes or SIZES[1:])):
        strip = paint.strip(line, width)
        found += [f"{name}: {what}" for what in _of(strip, width)]
        # The text behind it is laid out by the same measure as what the terminal gets.
        if line.text != strip.text:
            found.append(f"{name}: cleaned only at the end: {line.text!r}")
    return list(dict.fromkeys(found))[:5]


def _of(strip: Strip, width: int) -> Iterator[str]:
    text = strip.text
    if ENDLESS.search(text):
        yield f"a number without end in {text!r}"
    yield from steering(text)
    if "\n" in text:
        yield f"a line end in {text!r}"
    if Strip(list(strip)).cell_length != width:
        yield f"{Strip(list(strip)).cell_length} cells instead of {width}: {text!r}"
    if any(segment.style is not None and segment.style.meta for segment in strip):
        yield f"an action in {text!r}"


def changed(place: str | None, change: Mapping[type, object]) -> Records:
    """Return the fleet with the leaves of a place, or of all, replaced by what their type gets."""
    return {
        topic: {id_: with_put(one, place, change) for id_, one in some.items()}
        for topic, some in FLEET.items()
    }


@pytest.mark.parametrize("place", PLACES)
def test_no_field_steers_the_terminal(place: str) -> None:
    assert complaints(fleet_of(changed(place, {str: hazardous("field")}))) == []


@pytest.mark.parametrize("hazard", HAZARDS)
def test_no_kind_of_text_breaks_a_screen(hazard: str) -> None:
    for place in (None, "Node.health", "Node.inventory.devices.unhealthy", "Node.labels{}"):
        fleet = fleet_of(changed(place, {str: f"a{HAZARDS[hazard]}b"}))
        assert complaints(fleet, *SIZES) == []


@pytest.mark.parametrize("place", FIGURES)
def test_no_number_breaks_a_screen_or_fills_it(place: str) -> None:
    for real, whole in zip(NUMBERS, WHOLE, strict=True):
        assert complaints(fleet_of(changed(place, {float: real, int: whole}))) == []


KEPT = frozenset(
    {
        "Node.liveness",
        "Replica.state",
        *(f"Sample.heartbeat.{name}.uuid" for name in ("devices", "health")),
        *(f"Node.inventory.{name}" for name in ("devices.uuid", "devices.kind")),
    }
)
"""What says where other fields show: changed above, one by one."""
JOINED = frozenset(
    {
        *("Node.id", "Sample.id", "Replica.id", "Event.id", "Replica.model", "Replica.shards.node"),
        *("CatalogEntry.model.name", "Route.model", "Sample.heartbeat.shards.replica"),
    }
)
"""What names the same thing in several records."""


def hostile(hazard: str) -> Records:
    """Return the fleet with a hazard in every text, the name of the field on both sides of it."""

    def at(place: str, leaf: object) -> object:
        if not isinstance(leaf, str) or place in KEPT:
            return leaf
        return f"{leaf}{hazard}" if place in JOINED else f"{place}{hazard}{place}"

    return {
        topic: {f"{id_}{hazard}": mapped(one, at) for id_, one in some.items()}
        for topic, some in FLEET.items()
    }


@pytest.mark.parametrize("hazard", HAZARDS)
async def test_no_screen_passes_on_what_a_record_holds(hazard: str) -> None:
    topics = hostile(HAZARDS[hazard])
    feed = FakeFeed(RecordedFleet(topics))
    for name in topics["nodes"]:
        feed.logs[name, None] = [f"a{HAZARDS[hazard]}b", hazardous("log")]
    async with staged("empty", 120, 40, feed=feed) as stage:
        for screen, keys in SCREENS.items():
            await stage.call(*keys)
            problems = [what for strip in stage.desk.frame.strips() for what in _of(strip, 120)]
            assert problems == [], screen
            if stage.desk.frame.over.dialog is not None:
                await stage.call("escape")
            shown = stage.text()
            assert "there is no " not in shown, "nothing was shown"
            if hazard == "markup" and screen == "nodes":
                assert "[red][@click=app.quit]x[/]" in shown
            await stage.call("1")


async def test_a_command_to_copy_names_what_it_is_about_as_one_word() -> None:
    topics = hostile("; reboot")
    async with staged("empty", 120, 40, feed=FakeFeed(RecordedFleet(topics))) as stage:
        for keys in (("2", "enter"), ("4", "enter"), ("5",)):
            await stage.call(*keys)
            words = shlex.split(stage.desk.command())
            assert stage.desk.view.place.id in words
            assert "reboot" not in words
