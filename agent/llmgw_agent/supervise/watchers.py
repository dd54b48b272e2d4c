"""The tasks that watch shards: owned by one group, ended together without ending any engine."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Watchers:
    """A task group whose tasks can all be ended."""

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()
        self._running: set[asyncio.Task[Any]] = set()

    async def open(self) -> None:
        """Begin; tasks can be made from now on."""
        await self._group.__aenter__()

    async def close(self) -> None:
        """Cancel every task and return when all have ended."""
        for task in tuple(self._running):
            task.cancel()
        await self._group.__aexit__(None, None, None)

    def create_task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start a task that the group owns."""
        task = self._group.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def watch(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task that nobody waits for."""
        self._running.add(self.create_task(work))
