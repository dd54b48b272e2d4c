"""The screen of traffic: what is asked while it shows, and ending requests from it."""

import msgspec

from llmgw.base.errors import Refused, Unreachable
from llmgw.model.live import RequestsCancelled, RequestsShown
from llmgw_tui.console import Look
from llmgw_tui.draw.places import LOGS, REPLICA, Place
from llmgw_tui.screens.traffic import PERIOD, TrafficView
from tests.fakes import flows
from tests.fakes.feed import FakeFeed
from tests.fakes.fleet_parts import NOW
from tests.fakes.fleets import FLEETS
from tests.flow.tui.stage import NEVER, Stage, staged
from tests.waiting import wait_until


async def _again(stage: Stage) -> None:
    """Let the screen ask once more."""
    asked = len(stage.feed.gets)
    await stage.clock.advance(PERIOD)
    await wait_until(lambda: len(stage.feed.gets) > asked)
    await stage.flush()


def _cancelled(*ids: str, gone: tuple[str, ...] = ()) -> RequestsCancelled:
    return RequestsCancelled(cancelled=ids, gone=gone, silent=())


async def test_it_is_asked_for_while_it_shows_and_only_then() -> None:
    async with staged("cpu_serving", 120, 40) as stage:
        assert stage.feed.gets == []
        await stage.press("6")
        assert stage.feed.gets == ["/traffic-history", "/traffic", "/requests"]
        assert "3.37/s" in stage.text()
        await _again(stage)
        assert stage.feed.gets[3:] == ["/traffic", "/requests"], "the hour is asked for less often"
        await stage.press("2")
        asked = len(stage.feed.gets)
        await stage.clock.advance(10 * PERIOD)
        await stage.flush()
        assert len(stage.feed.gets) == asked


async def test_requests_come_and_go_as_they_are_told() -> None:
    async with staged("cpu_serving", 120, 40) as stage:
        await stage.press("6")
        assert "10.0.3.4:40112" in stage.text()
        left = tuple(one for one in flows.in_flight().requests if one.id != "req-b-1")
        stage.feed.answers["/requests"] = RequestsShown(
            at=NOW, total=3, matching=3, requests=left, silent=()
        )
        await _again(stage)
        assert "10.0.3.4:40112" not in stage.text()
        assert "Requests in flight 3" in stage.text()


async def test_one_is_ended_only_once_its_keys_name_was_typed() -> None:
    async with staged("cpu_serving", 120, 40) as stage:
        stage.feed.replies["/requests/cancel"] = _cancelled("req-a-2")
        await stage.press("6", "x")
        assert "Cancel req-a-2" in stage.text()
        assert "$ llmgw ctl requests cancel req-a-2" in stage.text()
        await stage.press("enter")
        assert stage.feed.done == []
        await stage.type("lab")
        await stage.press("enter")
        assert stage.feed.done == [("POST", "/requests/cancel", {"ids": ["req-a-2"]})]
        assert "1 request cancelled" in stage.text()


async def test_escape_ends_none() -> None:
    async with staged("cpu_serving") as stage:
        await stage.press("6", "x", "escape")
        assert stage.feed.done == []
        assert stage.desk.frame.over.dialog is None


async def test_all_that_a_filter_shows_are_ended_together() -> None:
    async with staged("cpu_serving", 120, 40) as stage:
        stage.feed.replies["/requests/cancel"] = _cancelled("req-b-1", gone=("req-b-2",))
        await stage.press("6", "slash")
        await stage.type("key=nightly*")
        await stage.press("enter", "X")
        assert "Cancel 2 requests" in stage.text()
        await stage.type("2")
        await stage.press("enter")
        ((_, _, body),) = stage.feed.done
        assert isinstance(body, dict)
        assert sorted(body["ids"]) == ["req-b-1", "req-b-2"]
        assert "1 request cancelled, 1 had ended already" in stage.text()


async def test_a_refusal_is_said_in_the_control_planes_words() -> None:
    async with staged("cpu_serving", 120, 40) as stage:
        stage.feed.refuse_changes = Refused("your token may only read", hint="ask an operator")
        await stage.press("6", "x")
        await stage.type("lab")
        await stage.press("enter")
        assert "not done: your token may only read (ask an operator)" in stage.text()


async def test_a_read_only_console_ends_nothing() -> None:
    async with staged("cpu_serving", 120, 40, look=Look(flush=NEVER, readonly=True)) as stage:
        await stage.press("6", "x")
        assert stage.desk.frame.over.dialog is None
        assert "this console is read-only" in stage.text()


async def test_what_is_old_is_dimmed_and_said_until_there_is_an_answer_again() -> None:
    async with staged("cpu_serving", 120, 40) as stage:
        await stage.press("6")
        fresh = stage.styles()[4]
        stage.feed.refuse_gets = Unreachable("no control plane leads")
        await _again(stage)
        assert "old: no control plane leads" in stage.text()
        assert "3.37/s" in stage.text(), "what was known still shows"
        assert stage.styles()[4] != fresh
        stage.feed.refuse_gets = None
        await _again(stage)
        assert "old:" not in stage.text()
        assert stage.styles()[4] == fresh


async def test_before_the_first_answer_it_says_why_there_is_none() -> None:
    feed = FakeFeed(FLEETS["cpu_serving"]())
    feed.refuse_gets = Unreachable("no control plane leads")
    async with staged("cpu_serving", feed=feed) as stage:
        await stage.press("6")
        assert "no control plane leads" in stage.text()
        assert "in flight 0" not in stage.text(), "what is not known is no zero"


async def test_an_answer_of_another_shape_is_said_and_asked_for_again() -> None:
    async with staged("cpu_serving", 120, 40) as stage:
        stage.feed.answers["/traffic"] = ()
        await stage.press("6")
        assert "can't be read" in stage.text()
        stage.feed.answers["/traffic"] = flows.flowing()
        await _again(stage)
        assert "3.37/s" in stage.text()


async def test_enter_leads_to_the_replica_and_l_to_its_log() -> None:
    async with staged("cpu_serving", 120, 40) as stage:
        await stage.press("6", "enter")
        assert stage.desk.history.here == Place(REPLICA, "gemma3-270m-7k2m9x")
        await stage.press("escape", "l")
        assert stage.desk.history.here.screen == LOGS


async def test_tab_leads_to_the_page_which_scrolls_to_its_charts() -> None:
    async with staged("cpu_serving", 80, 24) as stage:
        await stage.press("6")
        view = stage.desk.view
        assert isinstance(view, TrafficView)
        page, grid = view.bodies
        assert view.body is grid
        assert "requests/s  now" not in stage.text()
        await stage.press("tab", "end")
        assert view.body is page
        assert "requests/s  now" in stage.text()
        await stage.press("c")
        assert "errors/s  now" in stage.text()
        await stage.press("tab")
        assert view.body is grid


async def test_more_than_are_told_of_is_said() -> None:
    many = msgspec.structs.replace(flows.in_flight(), total=1200, matching=1200)
    async with staged("cpu_serving", 120, 40) as stage:
        stage.feed.answers["/requests"] = many
        await stage.press("6")
        assert "Requests in flight 1200" in stage.text()
        assert "4 of 1200 shown" in stage.text()
