"""Doing what a dialog was agreed to: in the background, and what came of it is said."""

from collections.abc import Awaitable, Callable
from functools import partial

from textual.widget import Widget
from textual.worker import WorkType

from llmgw.base.errors import LlmgwError
from llmgw_tui.screens.desk import Desk

READ_ONLY = "this console is read-only"


def may_act(desk: Desk) -> bool:
    """Say whether anything may be changed from here, and tell the person where not."""
    if desk.readonly:
        desk.say(READ_ONLY, "warn")
    return not desk.readonly


def act(desk: Desk, owner: Widget, run: Callable[[], Awaitable[None]]) -> None:
    """Do something that may fail; a refusal is said in the control plane's own words."""
    work: WorkType[None] = partial(_acted, desk, run)
    owner.run_worker(work, group="action", exit_on_error=False)


async def _acted(desk: Desk, run: Callable[[], Awaitable[None]]) -> None:
    try:
        await run()
    except LlmgwError as error:
        hint = "" if error.hint is None else f" ({error.hint})"
        desk.say(f"not done: {error.message}{hint}", "warn")
