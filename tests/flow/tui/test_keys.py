"""The screen of keys: made, changed, revoked, and what each used over time."""

import msgspec

from llmgw.base.errors import Refused, Unreachable
from llmgw_tui.console import Look
from llmgw_tui.draw.places import TRAFFIC
from llmgw_tui.screens.keylist import PERIOD
from tests.fakes import flows
from tests.flow.tui.stage import NEVER, Stage, staged
from tests.waiting import wait_until

MADE = {"id": "k1", "name": "lab two", "key": "llmgw_k1_s3cret"}


async def _again(stage: Stage) -> None:
    """Let the screen ask once more."""
    asked = len(stage.feed.gets)
    await stage.clock.advance(PERIOD)
    await wait_until(lambda: len(stage.feed.gets) > asked)
    await stage.flush()


async def test_keys_and_their_use_show_and_are_asked_for_again() -> None:
    async with staged("cpu_serving", 120, 40) as stage:
        await stage.press("7")
        assert stage.feed.gets == ["/keys", "/key-use"]
        assert "1.6M/2.0M tok/day" in stage.text()
        stage.feed.answers["/keys"] = flows.KEYS[:1]
        await _again(stage)
        assert "nightly batch" not in stage.text(), "its id is all that is left of its name"
        assert "batch00001" in stage.text(), "what it used stays"


async def test_a_key_is_made_and_shown_once() -> None:
    async with staged("cpu_serving", 80, 24) as stage:
        stage.feed.replies["/keys"] = MADE
        await stage.press("7", "a")
        await stage.type("lab two")
        assert "$ llmgw ctl key add 'lab two'" in stage.text()
        await stage.press("enter")
        assert stage.feed.done == [("POST", "/keys", {"name": "lab two"})]
        assert "llmgw_k1_s3cret" in stage.text()
        await stage.press("q", "enter")
        assert "llmgw_k1_s3cret" in stage.text(), "only Esc ends it: it can't be had again"
        await stage.press("y")
        assert stage.app.clipboard == "llmgw_k1_s3cret"
        await stage.press("escape")
        assert "s3cret" not in stage.text(), "also not in what was said"


async def test_what_is_wrong_with_a_form_is_said_and_nothing_is_sent() -> None:
    async with staged("cpu_serving") as stage:
        await stage.press("7", "a", "enter")
        assert "name: whose is it?" in stage.text()
        assert stage.feed.done == []


async def test_of_a_key_only_what_is_changed_is_sent() -> None:
    async with staged("cpu_serving", 80, 24) as stage:
        await stage.press("7", "e")
        assert "Change lab" in stage.text()
        await stage.press("down", "down", "down", "ctrl+u")
        await stage.type("90")
        await stage.press("enter")
        assert stage.feed.done == [("PUT", "/keys/k7f2m9x1aa", {"requests_per_minute": 90})]
        assert "lab is changed: requests_per_minute" in stage.text()


async def test_a_key_is_revoked_only_once_its_name_was_typed() -> None:
    async with staged("cpu_serving", 80, 24) as stage:
        await stage.press("7", "x", "enter")
        assert stage.feed.done == []
        await stage.type("lab")
        await stage.press("enter")
        assert stage.feed.done == [("DELETE", "/keys/k7f2m9x1aa", None)]
        assert "lab is revoked" in stage.text()


async def test_a_refusal_is_said_and_the_list_stays() -> None:
    async with staged("cpu_serving", 120, 40) as stage:
        stage.feed.refuse_changes = Refused("your token may only read")
        await stage.press("7", "x")
        await stage.type("lab")
        await stage.press("enter")
        assert "not done: your token may only read" in stage.text()
        assert "nightly batch" in stage.text()


async def test_a_read_only_console_changes_nothing_and_shows_use() -> None:
    async with staged("cpu_serving", 80, 24, look=Look(flush=NEVER, readonly=True)) as stage:
        await stage.press("7")
        for key in ("a", "e", "x"):
            await stage.press(key)
            assert stage.desk.frame.over.dialog is None
        await stage.press("u")
        assert "Use of lab" in stage.text()
        assert stage.feed.done == []


async def test_use_over_time_shows_by_hour_and_by_day() -> None:
    async with staged("cpu_serving", 120, 60) as stage:
        await stage.press("7", "u")
        assert stage.feed.gets[-2:] == ["/usage/sums", "/usage/sums"]
        assert "Use of lab" in stage.text()
        assert "371k" in stage.text()
        assert "$ llmgw ctl usage --key k7f2m9x1aa" in stage.text()


async def test_use_that_cannot_be_had_is_said() -> None:
    async with staged("cpu_serving", 120, 40) as stage:
        await stage.press("7")
        stage.feed.refuse_gets = Unreachable("the store is away")
        await stage.press("u")
        assert stage.desk.frame.over.dialog is None
        assert "not done: the store is away" in stage.text()


async def test_enter_leads_to_the_keys_requests() -> None:
    async with staged("cpu_serving", 120, 40) as stage:
        await stage.press("7", "down", "enter")
        assert stage.desk.history.here.screen == TRAFFIC
        assert "10.0.3.4:40112" in stage.text()
        assert "10.0.0.17" not in stage.text(), "those of others are left out"


async def test_a_key_that_was_revoked_can_only_be_looked_at() -> None:
    async with staged("cpu_serving", 120, 40) as stage:
        await stage.press("7", "end")
        for key in ("e", "x"):
            await stage.press(key)
            assert stage.desk.frame.over.dialog is None
        await stage.press("u")
        assert "Use of revoked001" in stage.text()


async def test_a_name_forges_nothing_on_the_screen() -> None:
    async with staged("cpu_serving", 120, 40) as stage:
        odd = msgspec.structs.replace(flows.KEYS[0], name="x\x1b[31m\nred")
        stage.feed.answers["/keys"] = (odd,)
        await stage.press("7")
        assert "\x1b" not in stage.text()
        await stage.press("e")
        assert "\x1b" not in stage.text()
