"""Keys, filters, drill-down, sizes and a lost control plane."""

import msgspec
import pytest
from textual.geometry import Region

from llmgw.base.errors import Refused
from llmgw.model.node import Heartbeat, Node, Sample
from llmgw.model.replica import Replica
from llmgw_tui.console import Look
from llmgw_tui.draw.places import LOGS, MODEL, NODE, NODES, OVERVIEW, REPLICA, Place
from llmgw_tui.screens.lists import ListView
from llmgw_tui.widgets.drawn import Drawn
from tests.fakes.feed import FakeFeed
from tests.fakes.fleets import FLEETS, NOW
from tests.flow.tui.stage import NEVER, Stage, staged
from tests.waiting import wait_until


def _cpu(stage: Stage, name: str, percent: float) -> Sample:
    sample = stage.feed.fleet.topics["samples"][name]
    assert isinstance(sample, Sample)
    values = {key: getattr(sample.heartbeat, key) for key in Heartbeat.__struct_fields__}
    values["cpu_percent"] = percent
    return Sample(id=name, at=NOW, heartbeat=Heartbeat(**values))


class Painted:
    """Counts the regions that widgets ask to be painted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.regions: list[tuple[str, tuple[Region, ...]]] = []
        original = Drawn.refresh

        def refresh(widget: Drawn, *regions: Region, **options: bool) -> Drawn:
            self.regions.append((type(widget).__name__, regions))
            return original(widget, *regions, **options)

        monkeypatch.setattr(Drawn, "refresh", refresh)

    def take(self) -> list[tuple[str, tuple[Region, ...]]]:
        taken, self.regions = self.regions, []
        return taken


async def test_one_list_and_one_watch_feed_everything() -> None:
    async with staged("mixed", 120, 24) as stage:
        await stage.press("2", "enter", "escape", "3", "4", "enter", "1")
        assert (stage.feed.lists, stage.feed.open_watches) == (1, 1)
        assert (stage.feed.open_logs, stage.feed.gets) == (0, [])
    assert stage.feed.open_watches == 0
    assert stage.feed.closed


async def test_numbers_open_screens_and_the_title_says_where_one_is() -> None:
    async with staged("mixed") as stage:
        for key, title in zip(
            "12345", ("Overview", "Nodes", "Replicas", "Models", "Logs"), strict=True
        ):
            await stage.press(key)
            assert f"llmgw ▸ lab ▸ {title}" in stage.lines()[0]


@pytest.mark.parametrize(
    ("key", "command"),
    [("1", "ctl status"), ("2", "ctl nodes"), ("3", "ctl replicas"), ("4", "ctl models")],
)
async def test_every_screen_shows_the_command_that_lists_the_same(key: str, command: str) -> None:
    async with staged("cpu_serving") as stage:
        await stage.press(key)
        assert f"$ llmgw {command}" in stage.text()


async def test_enter_leads_in_and_escape_back() -> None:
    async with staged("mixed") as stage:
        await stage.press("2", "down", "down", "enter")
        assert stage.desk.history.here == Place(NODE, "a100-03")
        assert "$ llmgw ctl node a100-03" in stage.text()
        await stage.press("enter")
        assert stage.desk.history.here == Place(REPLICA, "mistral-small-aa0002")
        await stage.press("enter")
        assert stage.desk.history.here == Place(MODEL, "mistral-small")
        await stage.press("escape", "escape", "escape")
        assert stage.desk.history.here == Place(NODES)
        assert stage.desk.view.chosen() is not None
        chosen = stage.desk.view.chosen()
        assert chosen is not None
        assert chosen.name == "a100-03", "the cursor is where it was"


async def test_the_overviews_trouble_leads_to_its_page() -> None:
    async with staged("mixed", 120, 40) as stage:
        await stage.press("enter")
        assert stage.desk.history.here == Place(MODEL, "qwen3-235b")
        await stage.press("escape")
        assert stage.desk.history.here == Place(OVERVIEW)


async def test_a_filter_works_while_it_is_typed_and_escape_undoes_it() -> None:
    async with staged("mixed") as stage:
        await stage.press("2", "slash")
        await stage.type("gpu-0[12]")
        assert "1/2 shown, 40 in all" in stage.text()
        await stage.press("escape")
        assert "25/40" in stage.lines()[1], "the cursor stays on its node"
        await stage.press("slash")
        await stage.type("state=lost")
        await stage.press("enter")
        assert "cpu-11" in stage.text()
        assert "gpu-01 " not in stage.text()
        assert "/state=lost" in stage.lines()[1]
        await stage.press("escape")
        assert "/40" in stage.lines()[1]


async def test_a_broken_filter_is_said_beside_it() -> None:
    async with staged("mixed") as stage:
        await stage.press("2", "slash")
        await stage.type("gpu[")
        assert "no regular expression" in stage.text()


async def test_a_key_that_is_typed_into_a_filter_does_nothing_else() -> None:
    async with staged("mixed") as stage:
        await stage.press("2", "slash")
        await stage.type("q 1")
        assert stage.desk.history.here == Place(NODES)
        assert stage.app.is_running


async def test_s_sorts_by_the_next_column_and_capital_s_turns_it() -> None:
    async with staged("mixed") as stage:
        await stage.press("2", "s", "s")
        view = stage.desk.view
        assert isinstance(view, ListView)
        assert view.grid.sort == "cpu"
        assert "CPU▲" in stage.text()
        await stage.press("S")
        shares = [stage.desk.fleet.node(row.id) for row in view.grid._rows]
        known = [seen.cpu_share for seen in shares if seen and seen.cpu_share is not None]
        assert known == sorted(known, reverse=True)
        assert shares[-1] is not None
        assert shares[-1].cpu_share is None, "what is not known comes last"


async def test_the_cursor_follows_its_node_when_rows_change_places() -> None:
    async with staged("mixed") as stage:
        await stage.press("2", "s", "s", "home")
        view = stage.desk.view
        assert isinstance(view, ListView)
        name = view.grid.cursor
        assert name is not None
        await stage.clock.advance(10)
        stage.feed.change("samples", name, _cpu(stage, name, 100.0))
        await stage.flush()
        assert view.grid.cursor == name
        assert view.grid._rows[0].id != name


async def test_rows_stay_in_place_while_somebody_moves() -> None:
    async with staged("mixed") as stage:
        await stage.press("2", "s", "s")
        view = stage.desk.view
        assert isinstance(view, ListView)
        await stage.clock.advance(10)
        await stage.press("down")
        order = [row.id for row in view.grid._rows]
        stage.feed.change("samples", order[0], _cpu(stage, order[0], 100.0))
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
        stage.feed.change("samples", "cpu-01", _cpu(stage, "cpu-01", 99.0))
        await stage.flush()
        ((name, regions),) = painted.take()
        assert name == "Grid"
        assert sum(region.area for region in regions) <= 12


async def test_a_change_that_cannot_be_seen_paints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged("mixed", 80, 24) as stage:
        await stage.press("2")
        painted = Painted(monkeypatch)
        stage.feed.change("samples", "gpu-16", _cpu(stage, "gpu-16", 99.0))
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
        for keys in ("1", "2", "3", "4", "5"):
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


async def test_y_copies_and_says_so() -> None:
    async with staged("cpu_serving") as stage:
        await stage.press("2", "y")
        assert stage.app.clipboard == "atlas"
        assert "copied atlas" in stage.text()
        await stage.press("Y")
        copied = msgspec.json.decode(stage.app.clipboard)
        assert [record["id"] for record in copied] == ["atlas", "atlas"]
        await stage.press("ctrl+y")
        assert stage.app.clipboard == "llmgw ctl nodes"


async def test_the_palette_opens_by_colon_and_jumps() -> None:
    async with staged("mixed") as stage:
        await stage.press("colon")
        await stage.type("node gpu-07")
        await stage.press("enter")
        assert stage.desk.history.here == Place(NODE, "gpu-07")
        await stage.press("ctrl+p")
        await stage.type("nodes h100 !serving")
        await stage.press("enter")
        assert stage.desk.history.here.screen == NODES
        assert "/6 shown, 40 in all" in stage.text()


async def test_what_lies_under_a_dialog_rests_until_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with staged("mixed", 120, 40) as stage:
        await stage.press("2", "question_mark")
        painted = Painted(monkeypatch)
        stage.feed.change("samples", "cpu-01", _cpu(stage, "cpu-01", 100.0))
        await stage.flush()
        assert painted.take() == []
        await stage.press("escape")
        assert "100%" in stage.text()


async def test_the_help_lists_every_key_of_the_screen() -> None:
    async with staged("mixed", 120, 60) as stage:
        for number in "12345":
            await stage.press(number, "question_mark")
            text = stage.text()
            for key in stage.desk.view.own_keys:
                assert key.words in text, f"{key} on {stage.desk.view.id}"
            await stage.press("escape")


async def test_themes_change_while_it_runs() -> None:
    async with staged("mixed") as stage:
        before = {style.bgcolor for line in stage.styles() for _, style in line}
        await stage.press("colon")
        await stage.type("theme light")
        await stage.press("enter")
        after = {style.bgcolor for line in stage.styles() for _, style in line}
        assert not before & after


async def test_states_are_told_apart_without_colour() -> None:
    for palette in ("mono", "dark"):
        look = Look(palette=palette, flush=NEVER)
        async with staged("mixed", 120, 60, look=look) as stage:
            await stage.press("2")
            view = stage.desk.view
            assert isinstance(view, ListView)
            for row in view.grid._rows:
                seen = stage.desk.fleet.node(row.id)
                assert seen is not None
                state = f"{seen.state.glyph.text} {seen.state.word}"
                line = next(line for line in stage.lines() if f" {row.id} " in line)
                assert state in line


async def test_ascii_mode_draws_ascii_alone() -> None:
    look = Look(ascii_only=True, flush=NEVER)
    async with staged("mixed", 120, 40, look=look) as stage:
        for keys in (("1",), ("2",), ("enter",), ("3",), ("4",), ("5",), ("question_mark",)):
            await stage.press(*keys)
            assert stage.text().isascii()


async def test_a_click_chooses_and_a_second_one_opens() -> None:
    async with staged("mixed") as stage:
        await stage.press("2")
        await stage.pilot.click(offset=(5, 5))
        await stage.flush()
        chosen = stage.desk.view.chosen()
        assert chosen is not None
        assert chosen.name == "a100-03"
        await stage.pilot.click(offset=(5, 5))
        await stage.flush()
        assert stage.desk.history.here == Place(NODE, "a100-03")


async def test_titles_keys_and_the_side_bar_can_be_clicked() -> None:
    async with staged("mixed", 120, 40) as stage:
        await stage.pilot.click(offset=(4, 3))
        await stage.flush()
        assert stage.desk.history.here == Place(NODES)
        x = stage.lines()[2].index("CPU")
        await stage.pilot.click(offset=(x, 2))
        await stage.flush()
        assert "CPU▲" in stage.text()
        x = stage.lines()[-1].index("help")
        await stage.pilot.click(offset=(x, 39))
        await stage.flush()
        assert "Everywhere" in stage.text()


async def test_q_and_two_interrupts_end_it() -> None:
    async with staged("empty") as stage:
        await stage.press("ctrl+c")
        assert "Ctrl+c again" in stage.text()
        await stage.press("1", "ctrl+c")
        assert stage.app.is_running, "another key in between takes it back"
        await stage.pilot.press("q")
        await wait_until(lambda: not stage.app.is_running)
        assert stage.app.return_code == 0


async def test_a_read_only_console_says_so() -> None:
    async with staged("empty", look=Look(readonly=True, flush=NEVER)) as stage:
        assert "RO" in stage.lines()[0]


async def test_pasted_text_goes_where_text_is_typed() -> None:
    async with staged("mixed") as stage:
        await stage.press("2", "slash")
        stage.desk.paste("gpu-0[12]\x1b[2J")
        await stage.flush()
        assert "1/2 shown" in stage.text()


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


async def test_the_screen_can_be_written_to_a_file(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    async with staged("mixed") as stage:
        await stage.press("2")
        stage.desk.act("export")
        await stage.flush()
        assert "written to llmgw-nodes.txt" in stage.text()
    with open("llmgw-nodes.txt", encoding="utf-8") as file:  # noqa: PTH123, ASYNC230
        assert "a100-01" in file.read()


async def test_the_logs_screen_of_an_empty_fleet_waits_for_a_node() -> None:
    async with staged("empty") as stage:
        await stage.press("5")
        assert "no node yet" in stage.text()
        assert stage.desk.history.here == Place(LOGS)
        stage.feed.logs["zeus", None] = ["hello"]
        stage.feed.change("nodes", "zeus", Node(id="zeus", liveness="ready"))
        await stage.flush()
        await wait_until(lambda: stage.feed.open_logs == 1)
        await stage.flush()
        assert "hello" in stage.text()
