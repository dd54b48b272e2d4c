"""Long text is read beside the loop, short text without a detour."""

import asyncio
import threading

import pytest

from llmgw.base.errors import Unreadable
from llmgw_agent.host.apart import LONG, apart
from tests.waiting import wait_until


def where(text: str) -> threading.Thread:
    if text.startswith("!"):
        raise Unreadable(text[:9])
    return threading.current_thread()


async def test_the_loop_goes_on_while_a_long_text_is_read():
    assert await apart(where, "x" * LONG) is threading.main_thread()
    assert await apart(where, "x" * (LONG + 1)) is not threading.main_thread()


@pytest.mark.parametrize("length", [1, LONG + 1])
async def test_what_can_not_be_read_is_told_alike(length):
    with pytest.raises(Unreadable, match="!x"):
        await apart(where, "!" + "x" * length)


async def test_a_loop_that_reads_long_text_serves_others():
    begun, others_ran = threading.Event(), threading.Event()

    def read(_: str) -> bool:
        begun.set()
        return others_ran.wait(20)

    reading = asyncio.ensure_future(apart(read, "x" * (LONG + 1)))
    await wait_until(begun.is_set)
    others_ran.set()
    assert await reading
