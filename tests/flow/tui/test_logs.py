"""Logs: their request is open exactly while somebody looks, and the lines are only text."""

from collections.abc import Iterable

from llmgw.base.errors import NotFound
from llmgw_tui.draw.places import LOGS, Place
from llmgw_tui.widgets.loglines import MOST_LINES, LogLines
from tests.flow.tui.stage import Stage, staged
from tests.waiting import wait_until

SHARD = "gemma3-270m-7k2m9x/0"


async def _shown(stage: Stage, *words: str) -> None:
    await wait_until(lambda: all(word in "\n".join(_kept(stage)) for word in words))
    await stage.flush()
    for word in words:
        assert word in stage.text()


def _kept(stage: Stage) -> Iterable[str]:
    return stage.desk.view.query_one(LogLines)._lines


async def test_a_log_is_followed_while_it_shows_and_not_longer() -> None:
    async with staged("cpu_serving") as stage:
        stage.feed.logs["atlas", None] = ["first"]
        await stage.press("5")
        await _shown(stage, "first")
        assert stage.feed.open_logs == 1
        stage.feed.log("atlas", None, "second", dropped=7)
        await _shown(stage, "second", "7 lines came too fast")
        await stage.press("1")
        await wait_until(lambda: stage.feed.open_logs == 0)


async def test_l_opens_the_log_of_what_is_under_the_cursor() -> None:
    async with staged("cpu_serving") as stage:
        stage.feed.logs["atlas", SHARD] = ["llama server listening"]
        await stage.press("3", "l")
        assert stage.desk.history.here == Place(LOGS, "atlas", SHARD)
        await _shown(stage, "llama server listening")
        assert f"$ llmgw ctl logs atlas --source {SHARD} --follow" in stage.text()
        await stage.press("escape")
        assert stage.desk.history.here.screen == "replicas"


async def test_sources_are_the_agent_the_shards_and_what_the_node_lists() -> None:
    async with staged("cpu_serving") as stage:
        stage.feed.logs["atlas", None] = ["from the agent"]
        stage.feed.logs["atlas", "old-replica/0"] = ["from an old engine"]
        await stage.press("5", "right_square_bracket")
        assert f"atlas ▸ {SHARD}" in stage.text()
        await stage.press("o")
        await wait_until(lambda: stage.desk.frame.over.dialog is not None)
        await stage.flush()
        assert stage.feed.gets == ["/nodes/atlas/logs"]
        await stage.type("old")
        await stage.press("enter")
        await _shown(stage, "from an old engine")
        await stage.press("p", "enter")
        await _shown(stage, "from the agent")


async def test_searching_marks_and_walks_through_matches() -> None:
    async with staged("cpu_serving") as stage:
        stage.feed.logs["atlas", None] = [f"line {n} {'ERROR' * (n % 40 == 0)}" for n in range(200)]
        await stage.press("5")
        await _shown(stage, "line 199")
        await stage.press("slash")
        await stage.type("error")
        await stage.press("enter")
        assert "line 160 ERROR" in stage.text()
        assert "stopped" in stage.lines()[1]
        await stage.press("N")
        assert "line 120 ERROR" in stage.text()
        await stage.press("n")
        assert "line 160 ERROR" in stage.text()
        match = stage.desk.brush.paint.style("match").color
        marked = [
            text.strip() for line in stage.styles() for text, style in line if style.color == match
        ]
        assert marked == ["ERROR"]
        await stage.press("f")
        assert "line 199" in stage.text()
        assert "following" in stage.lines()[1]


async def test_scrolling_back_stops_following_and_the_end_starts_it_again() -> None:
    async with staged("cpu_serving") as stage:
        stage.feed.logs["atlas", None] = [f"line {n}" for n in range(100)]
        await stage.press("5")
        await _shown(stage, "line 99")
        await stage.press("pageup")
        stage.feed.log("atlas", None, "newest")
        await wait_until(lambda: "newest" in _kept(stage))
        await stage.flush()
        assert "newest" not in stage.text()
        await stage.press("G")
        assert "newest" in stage.text()


async def test_a_log_that_may_not_be_read_says_why_and_comes_back_with_the_plane() -> None:
    async with staged("cpu_serving") as stage:
        stage.feed.refuse_logs = NotFound("no such source", hint="it was removed")
        await stage.press("5")
        view = stage.desk.view.query_one(LogLines)
        await wait_until(lambda: "no such source" in view.words)
        await stage.flush()
        assert "no such source (it was removed)" in stage.text()
        stage.feed.refuse_logs = None
        stage.feed.logs["atlas", None] = ["again"]
        stage.feed.lose()
        await stage.flush()
        stage.feed.come_back()
        await stage.flush()
        await _shown(stage, "again")


async def test_nothing_in_a_log_reaches_the_terminal_raw() -> None:
    async with staged("cpu_serving") as stage:
        stage.feed.logs["atlas", None] = ["a\x1b[2J\x1b]52;c;c2VjcmV0\x07b\x9bc\r\nd\u202e"]
        await stage.press("5")
        await wait_until(lambda: list(_kept(stage)))
        assert list(_kept(stage)) == ["abc d"]


async def test_only_the_newest_lines_are_kept() -> None:
    async with staged("cpu_serving") as stage:
        await stage.press("5")
        await wait_until(lambda: stage.feed.open_logs == 1)
        stage.feed.log("atlas", None, *(f"line {n}" for n in range(MOST_LINES + 10)))
        await wait_until(lambda: len(list(_kept(stage))) == MOST_LINES)
        assert next(iter(_kept(stage))) == "line 10"


async def test_a_nodes_page_shows_its_log_where_there_is_room_or_on_demand() -> None:
    async with staged("cpu_serving", 80, 24) as stage:
        stage.feed.logs["atlas", None] = ["from the agent"]
        await stage.press("2", "enter")
        assert stage.feed.open_logs == 0
        await stage.press("t")
        await _shown(stage, "from the agent")
        await stage.press("t")
        await wait_until(lambda: stage.feed.open_logs == 0)
        await stage.resize(120, 60)
    async with staged("cpu_serving", 120, 60) as stage:
        stage.feed.logs["atlas", None] = ["from the agent"]
        await stage.press("2", "enter")
        await _shown(stage, "from the agent")
        await stage.press("tab")
        assert stage.desk.view.body is stage.desk.view.query_one(LogLines)
        assert "▸ Log of the agent" in stage.text()
        await stage.press("tab", "escape")
        await wait_until(lambda: stage.feed.open_logs == 0)
