"""A list that is longer than the screen."""

import re

from tests.flow.tui.stage import Stage, staged

NODE = re.compile(r"\b(?:a100|cpu|gpu)-\d\d\b")


def shown(stage: Stage) -> list[str]:
    """Return the nodes on the screen, from the top."""
    return [found[0] for line in stage.lines() if (found := NODE.search(line))]


async def test_the_first_page_down_shows_the_next_nodes_and_page_up_the_first_again() -> None:
    async with staged("mixed", 120, 24) as stage:
        await stage.press("2")
        first = shown(stage)
        await stage.press("pagedown")
        second = shown(stage)
        assert second[0] == first[-1], "one line stays in view"
        assert not set(second[1:]) & set(first)
        await stage.press("pageup")
        assert shown(stage) == first


async def test_the_cursor_goes_with_the_page_and_reaches_both_ends() -> None:
    async with staged("mixed", 120, 24) as stage:
        await stage.press("2", "down", "down")
        assert "3/40" in stage.text()
        step = len(shown(stage)) - 1
        await stage.press("pagedown")
        assert f"{3 + step}/40" in stage.text()
        await stage.press("pagedown", "pagedown", "pagedown")
        assert "40/40" in stage.text()
        await stage.press("pageup", "pageup", "pageup", "pageup")
        assert "1/40" in stage.text()
