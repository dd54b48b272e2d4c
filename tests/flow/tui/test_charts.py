"""A node's charts on the console: asked for once, carried on by the watch, still when at rest."""

from collections.abc import Sequence

import msgspec
import pytest
from textual.geometry import Region

from llmgw.base.errors import Unreachable
from llmgw.model.node import Sample
from llmgw_tui.console import Look
from llmgw_tui.draw.places import NODE, Place
from llmgw_tui.widgets.drawn import Drawn
from tests.fakes.feed import ONLY_AN_HOUR
from tests.flow.tui.stage import NEVER, Stage, staged


def plot(stage: Stage) -> list[str]:
    """Return the first chart that shows: its title and its plot."""
    lines = stage.lines()
    start = next(index for index, line in enumerate(lines) if " now " in line)
    return lines[start : start + 7]


def heartbeat(stage: Stage, node: str, cpu: float | None, at: float) -> Sample:
    known = stage.desk.fleet.samples[node]
    beat = msgspec.structs.replace(known.heartbeat, cpu_percent=cpu)
    return Sample(id=node, at=at, heartbeat=beat)


async def test_a_past_is_asked_for_once_each_time_a_node_is_opened() -> None:
    async with staged("cpu_serving") as stage:
        await stage.call("2", "enter", "c", "c", "w", "down", "up")
        asked = [("atlas", 60), ("atlas", 360)]
        assert stage.feed.histories == asked, "an hour, and more when more was chosen"
        await stage.call("escape", "enter")
        assert stage.feed.histories == [*asked, ("atlas", 360)]


async def test_heartbeats_move_the_chart_without_another_request() -> None:
    async with staged("cpu_serving") as stage:
        await stage.call("2", "enter", "C", "c")
        before = plot(stage)
        assert "cpu  now 88%" in before[0]
        at = stage.desk.fleet.samples["atlas"].at
        for step in range(1, 31):
            await stage.clock.advance(10)
            sample = heartbeat(stage, "atlas", 0.0, at + 10 * step)
            stage.feed.change("samples", "atlas", sample)
            await stage.flush()
        after = plot(stage)
        assert "cpu  now 0%  min 0%" in after[0]
        assert after[-1].endswith("⣀⣀⣀⣀⣀⣀"), "five minutes at zero"
        assert "now" in stage.text()
        assert len(stage.feed.histories) == 1


async def test_a_reading_that_is_missing_is_a_gap_and_not_a_zero() -> None:
    async with staged("cpu_serving") as stage:
        await stage.call("2", "enter", "C", "c")
        at = stage.desk.fleet.samples["atlas"].at
        for step in range(1, 31):
            await stage.clock.advance(10)
            stage.feed.change("samples", "atlas", heartbeat(stage, "atlas", None, at + 10 * step))
            await stage.flush()
        title, *rows = plot(stage)
        assert "cpu  now -" in title
        assert "min 44%" in title
        assert all(len(row) < 77 for row in rows[:-1]), "nothing is drawn at the right edge"


async def test_charts_at_rest_paint_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged("gpu8", 200, 60) as stage:
        await stage.call("2", "enter", "c")
        painted: list[str] = []
        real = Drawn.refresh

        def refresh(self: Drawn, *regions: Region, **more: bool) -> Drawn:
            painted.append(type(self).__name__)
            return real(self, *regions, **more)

        monkeypatch.setattr(Drawn, "refresh", refresh)
        for _ in range(5):
            await stage.flush()
        assert painted == []


async def test_a_heartbeat_paints_only_what_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged("cpu_serving") as stage:
        await stage.call("2", "enter", "C", "c")
        painted: list[Region] = []
        real = Drawn.refresh

        def refresh(self: Drawn, *regions: Region, **more: bool) -> Drawn:
            painted.extend(regions)
            return real(self, *regions, **more)

        monkeypatch.setattr(Drawn, "refresh", refresh)
        at = stage.desk.fleet.samples["atlas"].at
        stage.feed.change("samples", "atlas", heartbeat(stage, "atlas", 12.0, at + 1))
        await stage.flush()
        assert 0 < sum(region.area for region in painted) < 200


async def test_a_control_plane_that_was_away_is_asked_again() -> None:
    async with staged("cpu_serving") as stage:
        await stage.call("2", "enter")
        stage.feed.lose()
        await stage.flush()
        stage.feed.come_back()
        await stage.flush()
        assert stage.feed.histories == [("atlas", 60)] * 2
        await stage.flush()
        assert "cpu  now 88%" in stage.text()


async def test_a_past_that_cannot_be_told_says_why_and_the_page_shows_the_rest() -> None:
    async with staged("cpu_serving") as stage:
        stage.feed.refuse_history = Unreachable("the store is away", hint="try again")
        await stage.call("2", "enter", "w")
        assert "how it was can't be told: the store is away (try again)" in stage.text()
        stage.feed.refuse_history = None
        await stage.call("escape", "enter", "C", "c")
        assert "cpu  now 88%" in stage.text()


async def test_a_time_that_is_not_kept_says_so_and_shows_the_hour() -> None:
    async with staged("cpu_serving") as stage:
        await stage.call("2", "enter", "w")
        assert ONLY_AN_HOUR in stage.text()
        assert "Last 6h" in stage.text()
        assert "cpu  now 88%" in stage.text()


async def test_while_it_is_asked_the_page_says_so_and_an_answer_for_another_node_is_dropped() -> (
    None
):
    async with staged("mixed") as stage:
        stage.feed.answer_histories.clear()
        stage.desk.go(Place(NODE, "cpu-01"))
        await stage.call("w")
        assert "asking the control plane how it was" in stage.text()
        stage.desk.go(Place(NODE, "cpu-02"))
        await stage.flush()
        stage.feed.answer_histories.set()
        await stage.flush()
        await stage.flush()
        assert stage.feed.histories[-1] == ("cpu-02", 360)
        view = stage.desk.view
        assert view.place.id == "cpu-02"
        assert "Node cpu-02" in stage.text()


async def test_keys_choose_device_and_measure_and_bring_the_chart_into_sight() -> None:
    async with staged("gpu8") as stage:
        await stage.call("2", "enter")
        assert "gpu1 busy" not in stage.text()
        await stage.press("]")
        assert "gpu1 busy" in stage.text()
        await stage.press("c")
        assert "gpu1 work (SMs active)" in stage.text()
        await stage.press("[", "[")
        assert "gpu7 work (draw of limit)" in stage.text()
        await stage.press("C")
        assert "gpu7 busy" in stage.text()


async def test_the_keys_of_the_charts_stand_in_the_key_bar_and_in_the_help() -> None:
    async with staged("gpu8", 80, 24) as stage:
        await stage.call("2", "enter")
        bar = stage.lines()[-1]
        for words in ("c chart", "] device", "w time", "? help", "q quit"):
            assert words in bar
        await stage.resize(120, 60)
        await stage.call("question_mark")
        for words in ("chart before", "device before", "time"):
            assert words in stage.text()


async def test_a_node_without_devices_has_no_key_for_another_one() -> None:
    async with staged("cpu_serving") as stage:
        await stage.call("2", "enter")
        assert "] device" not in stage.lines()[-1]


async def test_charts_in_ascii_are_ascii_and_keep_their_gap() -> None:
    look = Look(ascii_only=True, flush=NEVER)
    async with staged("gpu8", 120, 40, look=look) as stage:
        await stage.call("2", "enter", "c", "t")
        assert stage.text().isascii()
        row = next(line for line in stage.lines() if "   0 |" in line)
        assert row.count("#") > 40
        assert "#   #" in row
        assert "." * 20 in stage.text(), "an idle device is drawn as zero"


async def test_every_kind_of_fact_of_a_node_is_told_without_colour() -> None:
    async with staged("gpu8", 200, 130, look=Look(palette="mono", flush=NEVER)) as stage:
        await stage.call("2", "enter")
        text = stage.text()
    for words in _SAID:
        assert words in text, words


_SAID: Sequence[str] = (
    "▲ fails   for 13m: nvidia-smi -q: no answer within 20 s; read 14m ago, every 60s",
    "○ fine    every 5s, on time",
    "▲ XID 79 once, last 10m ago: GPU has fallen off the bus; reboot the machine",
    "XID 94 2 times, last 2h00m ago: contained memory error; cleared",
    "▲ 2 of 18 NVLinks down, errors: 7 CRC",
    "▲ PCIe generation 5, 8 of 16 lanes",
    "slowed down: power cap",
    "ECC errors: 3 corrected, 0 uncorrected since the driver was loaded",
    "rows remapped: 0 corrected, 1 uncorrected",
    "NVLink fabric of this machine alone",
    "● active          400 Gb/s",
    "– down, polling",
    "errors symbol_error 12, link_downed at least 255",
    "● master          0x506b4b0300aa1100  priority 14  lid 1  seen through mlx5_0/1",
    "412 GB/s of memory, 13 GB/s of one core",
    "CPU package 0               61°C   188 W",
    "board inlet                    -",
    "Shared storage",
)
