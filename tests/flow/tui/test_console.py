"""Keys, filters, drill-down, the mouse, and what ends the console."""

import msgspec
import pytest

from llmgw.model.node import Node
from llmgw_tui.console import Look
from llmgw_tui.draw.places import LOGS, MODEL, NODE, NODES, OVERVIEW, REPLICA, Place
from llmgw_tui.screens.lists import ListView
from tests.flow.tui.painted import Painted, busy
from tests.flow.tui.stage import NEVER, staged
from tests.waiting import wait_until


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
        stage.feed.change("samples", name, busy(stage, name, 100.0))
        await stage.flush()
        assert view.grid.cursor == name
        assert view.grid._rows[0].id != name


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
        stage.feed.change("samples", "cpu-01", busy(stage, "cpu-01", 100.0))
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
