"""Reading long text in a thread, so that it delays no heartbeat."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

LONG: Final = 256 << 10
"""Characters from which on a text is read apart: a quarter of a second at most, where readers keep
to their millisecond for a thousand."""


async def apart(read: Callable[[str], T], text: str) -> T:
    """Return what a pure reader makes of a text; a long one is read in a thread.

    The thread can't be ended, and needn't be: the text is bounded by who fetched it
    (`llmgw.base.world.PRINTED_MOST`), and so is the time by the text.
    """
    return read(text) if len(text) <= LONG else await asyncio.to_thread(read, text)
