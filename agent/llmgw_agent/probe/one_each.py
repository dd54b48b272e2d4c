"""Asking for several things behind drivers of which each may hang."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from llmgw.base.errors import LlmgwError
from llmgw_agent.host.helper import Helper


class OneEach:
    """All share one helper process; one that did not answer has its own until it does.

    So a thing that hangs costs itself, and another thing a few seconds once at most.

    Args:
        new_helper: makes a helper.
    """

    def __init__(self, new_helper: Callable[[], Helper]) -> None:
        self._new_helper = new_helper
        self._shared = new_helper()
        self._own: dict[str, Helper] = {}

    async def hold(self, names: Iterable[str]) -> None:
        """End the helpers of things that are not among these."""
        for gone in self._own.keys() - set(names):
            await self._own.pop(gone).close()

    async def ask(
        self, names: Sequence[str], ask: Callable[[str, Helper], Awaitable[None]]
    ) -> dict[str, LlmgwError]:
        """Ask for each by name, and return by name what went wrong.

        Args:
            names: the things; those that share are asked one after the other.
            ask: asks a helper for a thing and takes its answer.
        """
        alone = [name for name in names if name in self._own]
        sharing = [name for name in names if name not in self._own]
        troubles: dict[str, LlmgwError] = {}
        async with asyncio.TaskGroup() as group:
            for some in (sharing, *((name,) for name in alone)):
                group.create_task(self._one_by_one(some, ask, troubles))
        return {name: troubles[name] for name in names if name in troubles}

    async def close(self) -> None:
        """End all helpers."""
        for helper in (self._shared, *self._own.values()):
            await helper.close()

    async def _one_by_one(
        self,
        names: Iterable[str],
        ask: Callable[[str, Helper], Awaitable[None]],
        troubles: dict[str, LlmgwError],
    ) -> None:
        for name in names:
            try:
                await ask(name, self._own.get(name, self._shared))
            except LlmgwError as error:
                if name not in self._own:
                    self._own[name] = self._new_helper()
                troubles[name] = error
            else:
                if name in self._own:
                    await self._own.pop(name).close()
