"""Charts: what was not measured is never drawn as zero, and time moves what is drawn."""

import re

import msgspec
import pytest

from llmgw.model.device import Device, DeviceSample
from llmgw.model.history import DEVICE_MEASURES, HOUR, NODE_MEASURES, NodeHistory, Series
from llmgw.model.node import Heartbeat, Node, Sample
from llmgw.model.work import POWER, SM_ACTIVE
from llmgw_tui.draw import node, trends
from llmgw_tui.draw.chart import Trend, chart, duration, shown, times, top_of
from llmgw_tui.draw.page import PageLine
from llmgw_tui.draw.seen import NodeSeen, When
from llmgw_tui.draw.text import Pieces, pieces_width
from llmgw_tui.draw.trends import Choice, Trends
from llmgw_tui.store.past import Past
from llmgw_tui.themes.paint import to_ascii
from tests.fakes.conditions import past
from tests.fakes.fleet_parts import NOW
from tests.fakes.fleets import FLEETS
from tests.unit.tui.seen import fleet_of


def text(lines: list[Pieces] | list[PageLine] | tuple[PageLine, ...]) -> list[str]:
    pieces = [line.pieces if isinstance(line, PageLine) else line for line in lines]
    return ["".join(piece.text for piece in one) for one in pieces]


def trend(*values: float | None, unit: str = "percent", top: float | None = None) -> Trend:
    return Trend("busy", values, len(values) - 1, 600.0, unit, top)


def test_what_was_not_measured_is_blank_and_zero_is_a_dot() -> None:
    gap = text(chart(trend(None, None, 0.0, 0.0), 10, 3))
    assert gap[1] == "  100% ┤ ⣀"
    assert "\u2800" not in "".join(gap)


def test_without_any_reading_there_is_no_plot_and_no_number() -> None:
    lines = text(chart(trend(None, None), 40, 6))
    assert lines == ["busy  nothing measured in this time"]


def test_the_ends_stand_in_words_and_the_gap_has_its_time() -> None:
    title = text(chart(trend(12.0, None, 91.0, 40.0), 60, 4))[0]
    assert title == "busy  now 40%  min 12%  max 91%  gaps 10m"
    assert "now -" in text(chart(trend(12.0, None), 60, 4))[0]
    assert "gaps" not in text(chart(trend(1.0, 2.0), 60, 4))[0]


def test_the_axis_says_top_middle_and_zero_and_time_runs_to_now_at_the_right() -> None:
    lines = text(chart(trend(*[50.0] * 6), 40, 6))
    assert [line[:8] for line in lines[1:5]] == ["  100% ┤", "       │", "   50% ┤", "     0 ┤"]
    assert lines[5] == "        -1h           -30m           now"
    assert {len(line) for line in lines[1:]} == {40}


@pytest.mark.parametrize("width", range(9, 90, 7))
@pytest.mark.parametrize("height", [3, 4, 6, 9])
def test_a_chart_keeps_to_its_width_and_height(width: int, height: int) -> None:
    lines = chart(trend(*(float(n) for n in range(50))), width, height)
    assert len(lines) == height
    assert all(pieces_width(line) <= width for line in lines[1:])


@pytest.mark.parametrize(
    ("unit", "known", "highest", "top"),
    [
        ("percent", None, 40.0, 100.0),
        ("percent", None, 104.0, 110.0),
        ("celsius", None, 64.0, 100.0),
        ("bytes", 8e9, 3e9, 8e9),
        ("bytes", None, 3e9, 5e9),
        ("watts", 700.0, 720.0, 720.0),
        ("load", None, 0.0, 1.0),
        ("load", 2.0, 0.5, 2.0),
    ],
)
def test_the_top_of_an_axis_is_what_there_is_or_a_round_number(
    unit: str, known: float | None, highest: float, top: float
) -> None:
    assert top_of(unit, known, highest) == top


def test_values_and_times_are_told_as_people_read_them() -> None:
    units = (("percent", 91.4), ("bytes", 7.1e10), ("watts", 612.3), ("celsius", 64.2), ("load", 2))
    assert [shown(value, unit) for unit, value in units] == [
        "91%",
        "71 GB",
        "612 W",
        "64°C",
        "2.00",
    ]
    assert shown(None, "percent") == "-"
    assert [duration(s) for s in (600, 3600, 5400, 86400, 7 * 86400)] == [
        "10m", "1h", "90m", "1d", "7d",
    ]  # fmt: skip
    assert times(3600, 3) == "now"


def test_in_ascii_zero_and_nothing_measured_still_differ() -> None:
    row = to_ascii(text(chart(trend(None, None, 0.0, 0.0, 100.0, 100.0), 11, 3))[1])
    assert row == "  100% | .#"


def page_of(name: str, node_id: str, width: int, choice: Choice) -> str:
    fleet, when = fleet_of(name)
    seen = fleet.node(node_id)
    assert seen is not None
    told = Past(past(seen.sample, HOUR, NOW)).seen()
    section = trends.section(seen, told, choice, when, width)
    return "\n".join((section.title, *text(section.lines)))


@pytest.mark.parametrize("width", [40, 80, 96, 176, 250])
@pytest.mark.parametrize("fleet", [name for name in FLEETS if name != "empty"])
def test_the_charts_fit_every_width(fleet: str, width: int) -> None:
    known, when = fleet_of(fleet)
    for seen in known.seen().nodes[:6]:
        told = Past(past(seen.sample, HOUR, NOW)).seen()
        for series in trends.options(seen, trends.columns_of(width)):
            choice = Choice(series=series)
            page = node.page(seen, when, width, 24, past=told, choice=choice)
            assert all(pieces_width(line.pieces) in {0, width} for line in page)
            found = node.charts_at(page)
            assert text(page)[found[0]].startswith("Last 1h")


def test_in_a_small_terminal_one_chart_shows_at_a_time() -> None:
    shown_ = [
        page_of("gpu8", "gpu-01", 80, Choice(series=series)).splitlines()[1].partition("  ")[0]
        for series in ("", "busy", "work", "power", "temperature", "node cpu", "node memory")
    ]
    assert shown_ == [
        "gpu0 busy", "gpu0 busy", "gpu0 work (SMs active)", "gpu0 power", "gpu0 heat", "cpu",
        "node memory",
    ]  # fmt: skip


def test_in_a_wide_one_all_charts_of_a_device_or_one_measure_of_all_devices() -> None:
    one = page_of("gpu8", "gpu-01", 176, Choice())
    for title in ("busy", "work (SMs active)", "memory", "power", "heat", "cpu", "node memory"):
        assert re.search(rf"(^|   ){re.escape(title)}  now", one, re.MULTILINE), title
    all_ = page_of("gpu8", "gpu-01", 176, Choice(series="work"))
    assert [f"gpu{card} work (" in all_ for card in range(8)] == [True] * 5 + [False] + [True] * 2
    assert "gpu7 work (draw of limit)" in all_
    assert "nothing measured in this time: gpu5 work" in all_


def test_work_that_was_made_of_two_things_names_both() -> None:
    fleet, when = fleet_of("gpu8")
    seen = fleet.node("gpu-01")
    assert seen is not None
    uuid = "gpu-01-uuid-0"
    told = Trends(
        last=int(NOW // 10), values={(uuid, "work"): [1.0]}, made_of={uuid: (SM_ACTIVE, POWER)}
    )
    section = trends.section(seen, told, Choice(series="work"), when, 90)
    assert "gpu0 work (SMs active, before that draw of limit)" in text(section.lines)[0]


def test_keys_go_around_what_there_is() -> None:
    fleet, _ = fleet_of("mixed")
    seen = fleet.node("a100-01")
    assert seen is not None
    names = []
    choice = Choice()
    for _ in range(len(seen.hardware)):
        device = trends.chosen_device(seen, choice)
        assert device is not None
        names.append(device.shown)
        choice = trends.other_device(seen, choice, 1, 1)
    assert names == ["gpu0", "gpu1", "gpu2", "gpu3", "gpu3/mig1", "gpu3/mig2"]
    assert trends.chosen_device(seen, choice) == trends.chosen_device(seen, Choice())
    assert trends.other_device(seen, Choice(), -1, 1).device == "MIG-a100-01-2"
    chosen = Choice("work", "a100-01-uuid-2")
    assert trends.other_device(seen, chosen, 1, 2) == Choice("", "a100-01-uuid-2")
    series = []
    for _ in range(8):
        choice = trends.other_series(seen, choice, 1, 1)
        series.append(choice.series)
    assert series == [
        "work", "memory", "power", "temperature", "node cpu", "node memory", "node load", "busy",
    ]  # fmt: skip
    assert trends.other_series(seen, Choice(), -1, 2).series == "temperature"
    spans = [choice.minutes]
    for _ in range(5):
        choice = trends.other_time(choice)
        spans.append(choice.minutes)
    assert spans == [60, 360, 1440, 10080, 10, 60]


def test_a_node_without_devices_has_charts_of_its_own_alone() -> None:
    fleet, _ = fleet_of("cpu_serving")
    seen = fleet.node("atlas")
    assert seen is not None
    assert trends.options(seen, 1) == ("node cpu", "node memory", "node load")
    assert trends.options(seen, 3) == ("",)
    assert trends.other_device(seen, Choice(), 1, 1) == Choice()


def test_a_node_that_is_not_heard_any_more_shows_the_gap_up_to_now() -> None:
    fleet, when = fleet_of("cpu_serving")
    seen = fleet.node("atlas")
    assert seen is not None
    told = Past(past(seen.sample, HOUR, NOW)).seen()
    section = trends.section(seen, told, Choice(series="node cpu"), When(when.now + 1200), 80)
    lines = text(section.lines)
    assert "now -" in lines[0]
    assert "gaps 25m" in lines[0]
    assert lines[-2][8:].rstrip() == lines[-2][8 : 8 + 48], "the last third is blank"
    fresh = trends.section(seen, told, Choice(series="node cpu"), When(when.now + 15), 80)
    assert "now 88%" in text(fresh.lines)[0]


def test_what_is_older_than_what_was_told_is_a_gap_at_the_left() -> None:
    fleet, when = fleet_of("cpu_serving")
    seen = fleet.node("atlas")
    assert seen is not None
    told = Past(past(seen.sample, HOUR, NOW)).seen()
    six = trends.section(seen, told, Choice("node cpu", minutes=360), when, 80)
    assert six.title == "Last 6h"
    plot = text(six.lines)[-2][8:]
    assert plot[: len(plot) * 4 // 6].strip() == ""
    assert plot[-1] != " "


def history(*values: float | None, device: str | None = "g", name: str = "busy") -> NodeHistory:
    one = Series(name=name, device=device, unit="percent", values=values)
    return NodeHistory(step=10.0, until=NOW, series=(one,), source="memory")


def beat(at: float, busy: float | None = 5.0, uuid: str = "g") -> Sample:
    devices = (DeviceSample(uuid=uuid, busy_percent=busy),)
    return Sample(id="n", at=at, heartbeat=Heartbeat(sequence=1, devices=devices))


def known(told: Past, device: str | None = "g", name: str = "busy") -> list[float | None]:
    return list(told.seen().values[device, name])


def test_heartbeats_carry_a_past_on_and_leave_gaps_where_none_came() -> None:
    told = Past(history(1.0, 2.0, 3.0, 4.0))
    told.add(beat(NOW + 3, 5.0))
    assert known(told) == [1.0, 2.0, 3.0, 5.0], "a newer reading of the step that lasts"
    told.add(beat(NOW + 10, 6.0))
    assert known(told) == [2.0, 3.0, 5.0, 6.0]
    told.add(beat(NOW + 30, None))
    assert known(told) == [5.0, 6.0, None, None]
    told.add(beat(NOW - 50, 9.0))
    assert known(told) == [5.0, 6.0, None, None], "an older one changes nothing"
    told.add(beat(NOW + 9000, 7.0))
    assert known(told) == [None, None, None, 7.0]
    assert told.seen().last == int((NOW + 9000) // 10)


def test_a_device_that_comes_later_has_gaps_before() -> None:
    told = Past(history(1.0, 2.0))
    told.add(beat(NOW, 8.0, uuid="new"))
    assert known(told, "new") == [None, 8.0]
    assert known(told) == [1.0, 2.0]


def test_a_past_of_a_node_of_which_nothing_was_kept_can_be_carried_on() -> None:
    told = Past(NodeHistory(step=10.0, until=0.0, series=(), source="memory"))
    told.add(beat(NOW))
    assert known(told) == [5.0]


def test_every_measure_has_a_chart() -> None:
    devices = (Device(uuid="g", kind="gpu", number=0),)
    inventory = msgspec.structs.replace(Node(id="n").inventory, devices=devices)
    seen = NodeSeen(Node(id="n", liveness="ready", inventory=inventory))
    assert trends.options(seen, 1) == (
        *(one.name for one in DEVICE_MEASURES),
        *(f"node {one.name}" for one in NODE_MEASURES),
    )
