"""Screens that change while they are looked at: painting, sizes, a lost control plane."""

import msgspec
import pytest

from llmgw.base.errors import Refused
from llmgw.model.node import Node
from llmgw.model.replica import Replica
from llmgw_tui.screens.lists import ListView
from tests.fakes.feed import FakeFeed
from tests.fakes.fleet_parts import NOW
from tests.fakes.fleets import FLEETS
from tests.flow.tui.painted import Painted, busy
from tests.flow.tui.stage import staged
from tests.waiting import wait_until


async def test_rows_stay_in_place_while_somebody_moves() -> None:
    async with staged("mixed") as stage:
        await stage.press("2", "s", "s")
        view = stage.desk.view
        assert isinstance(view, ListView)
        await stage.clock.advance(10)
        await stage.press("down")
        order = [row.id for row in view.grid._rows]
        stage.feed.change("samples", order[0], busy(stage, order[0], 100.0))
        await stage.flush()
        assert [row.id for row in view.grid._rows] == order
        await stage.clock.advance(10)
        await stage.flush()
        assert [row.id for row in view.grid._rows] != order


async def test_nothing_is_painted_when_nothing_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged("mixed", 120, 40) as stage:
        await stage.press("2")
        painted = Painted(monkeypatch)
        for _ in range(5):
            await stage.flush()
        assert painted.take() == []


async def test_only_the_cells_that_changed_are_painted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged("mixed", 120, 40) as stage:
        await stage.press("2")
        painted = Painted(monkeypatch)
        stage.feed.change("samples", "cpu-01", busy(stage, "cpu-01", 99.0))
        await stage.flush()
        ((name, regions),) = painted.take()
        assert name == "Grid"
        assert sum(region.area for region in regions) <= 12


async def test_a_change_that_cannot_be_seen_paints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged("mixed", 80, 24) as stage:
        await stage.press("2")
        painted = Painted(monkeypatch)
        stage.feed.change("samples", "gpu-16", busy(stage, "gpu-16", 99.0))
        await stage.flush()
        assert painted.take() == []


async def test_a_new_node_and_a_removed_one_show_at_once() -> None:
    async with staged("cpu_serving") as stage:
        await stage.press("2")
        stage.feed.change("nodes", "zeus", Node(id="zeus", liveness="ready"))
        await stage.flush()
        assert "zeus" in stage.text()
        stage.feed.change("nodes", "zeus", None)
        await stage.flush()
        assert "zeus" not in stage.text()


async def test_a_page_of_something_that_is_gone_says_so() -> None:
    async with staged("cpu_serving") as stage:
        await stage.press("3", "enter")
        stage.feed.change("replicas", "gemma3-270m-7k2m9x", None)
        await stage.flush()
        assert "there is no replica gemma3-270m-7k2m9x" in stage.text()


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (99, 29), (100, 30), (150, 50), (200, 60)])
async def test_every_screen_fits_every_size(size: tuple[int, int]) -> None:
    async with staged("mixed", *size) as stage:
        for keys in ("1", "2", "3", "4", "5", "6", "7"):
            await stage.call(keys)
            lines = [strip.cell_length for strip in stage.desk.frame.strips()]
            assert lines == [size[0]] * size[1]
            assert ("╭─" in stage.text()) == (size[1] >= 30)
            assert ("1 Overview" in stage.text()) == (size[0] >= 100)


@pytest.mark.parametrize("fleet", ["empty", "mixed"])
async def test_a_list_of_nothing_keeps_its_titles_and_the_border_beside_it(fleet: str) -> None:
    async with staged(fleet, 120, 40) as stage:
        for key, title in (("2", "NODE"), ("3", "REPLICA"), ("4", "MODEL")):
            await stage.press(key, "slash")
            await stage.type("zzz")
            await stage.press("enter")
            inside = stage.lines()[2:-2]
            assert all(line.endswith("│") and len(line) == 120 for line in inside)
            assert title in inside[0]
            assert ("nothing fits /zzz" in inside[1]) == (fleet == "mixed")
            await stage.press("escape")


async def test_a_terminal_that_changes_its_size_is_laid_out_anew() -> None:
    async with staged("mixed", 80, 24) as stage:
        await stage.press("2")
        await stage.resize(200, 60)
        assert "1 Overview" in stage.text()
        assert "gpu-16" in stage.text()
        await stage.resize(30, 8)
        assert "needs 40x10" in stage.text()
        await stage.resize(80, 24)
        assert "NODE▲" in stage.text()


async def test_a_lost_control_plane_is_said_with_the_age_of_what_shows() -> None:
    async with staged("mixed") as stage:
        await stage.press("2")
        live = stage.styles()[3:8]
        stage.feed.lose(heard=NOW - 12)
        await stage.flush()
        assert "◐ reconnecting 12s" in stage.lines()[0]
        assert "nothing listens at http://127.0.0.1:7441" in stage.text()
        assert "gpu" in stage.text() or "cpu-01" in stage.text(), "what was known still shows"
        stale = stage.styles()[3:8]
        assert [text for line in stale for text, _ in line] == [t for line in live for t, _ in line]
        for old, new in zip(live, stale, strict=True):
            assert not {style.color for _, style in old} & {style.color for _, style in new}
        await stage.clock.advance(60)
        stage.feed.lose(heard=NOW - 12, stale=True)
        await stage.flush()
        assert "? stale 1m12s" in stage.lines()[0]
        stage.feed.come_back()
        await stage.flush()
        assert "● live" in stage.lines()[0]
        assert stage.styles()[3:8] == live
        assert stage.feed.lists == 1


async def test_a_control_plane_that_began_anew_is_listed_anew() -> None:
    async with staged("mixed") as stage:
        await stage.press("2")
        del stage.feed.fleet.topics["nodes"]["a100-01"]
        stage.feed.come_back(listing=True)
        await stage.flush()
        assert "a100-01" not in stage.text()
        assert "a100-02" in stage.text()


async def test_a_refused_token_is_said_and_r_tries_again() -> None:
    feed = FakeFeed(FLEETS["empty"](), refuse=Refused("that token is not known", hint="log in"))
    async with staged("empty", feed=feed) as stage:
        assert "✖ refused" in stage.lines()[0]
        assert "that token is not known (log in)" in stage.text()
        feed._refuse = None
        await stage.press("r")
        await wait_until(lambda: stage.desk.fleet.listed)
        await stage.flush()
        assert "● live" in stage.lines()[0]


async def test_a_watch_that_breaks_by_its_own_fault_is_said_and_started_again() -> None:
    async with staged("cpu_serving") as stage:
        stage.feed.say_nonsense()
        await wait_until(lambda: "internal error" in stage.desk.fleet.connection.words)
        await stage.flush()
        assert "◐ reconnecting" in stage.lines()[0]
        await wait_until(lambda: stage.feed.lists == 2)
        await stage.flush()
        assert "● live" in stage.lines()[0]


async def test_a_replica_that_fails_shows_why() -> None:
    async with staged("cpu_serving") as stage:
        await stage.press("3")
        record = stage.feed.fleet.topics["replicas"]["gemma3-270m-7k2m9x"]
        changed = msgspec.json.decode(msgspec.json.encode(record))
        changed |= {"state": "failed", "reason": "exited with 1: \x1b[31mcannot open shared object"}
        stage.feed.change("replicas", changed["id"], msgspec.convert(changed, Replica))
        await stage.flush()
        assert "✖ failed" in stage.text()
        assert "exited with 1: cannot op" in stage.text()
