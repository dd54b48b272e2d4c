"""The end of a run: what killed programs left is collected, and does nothing more on its way.

A program that was killed is kept as it stood, for collecting it closes its coroutines, and their
`finally` blocks would clean up, which nothing does after SIGKILL. When a run is over they may; what
they still begin goes to a loop that makes no step. On asyncio's own loop, which is there for
whoever has none, it would wait for ever and hold all of the run in memory.
"""

import asyncio
import gc
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from llmgw.local.sim.loop import SimLoop


@contextmanager
def quiet_end() -> Iterator[None]:
    """Collect nothing within the block, and all that is left of it afterwards.

    Collecting while a run goes on would cost and find little: what was killed is kept. What was
    there before the run is not looked at afterwards either.
    """
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        _collect()
        gc.unfreeze()
        gc.enable()


def _collect() -> None:
    hook, nowhere = sys.unraisablehook, SimLoop()
    sys.unraisablehook = lambda _: None
    asyncio.events._set_running_loop(nowhere)  # noqa: SLF001 -- as a loop that runs does
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            gc.collect()
            # What coroutines began as they were closed.
            if nowhere.drop():
                gc.collect()
    finally:
        asyncio.events._set_running_loop(None)  # noqa: SLF001
        sys.unraisablehook = hook
        nowhere.close()
