"""Weights that a control plane wants here: begun when it asks, and each further ask says how far.

An ask never waits. How an errand ended is said once: whoever asks again has it tried again. An
errand that nobody asks for any more is broken off; what was fetched of it stays for the next.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError
from llmgw.model.catalog import HubSource, MirrorSource, PackageSource, PathSource, UrlSource
from llmgw.model.commands import ABSENT, CHECKING, FAILED, FETCHING, HELD, WeightsState
from llmgw.model.shard import Progress
from llmgw.model.weights import held_as
from llmgw_agent.weights.sources import Tell

Source = PackageSource | HubSource | UrlSource | PathSource | MirrorSource

LET_GO_AFTER = 60.0
"""Seconds without an ask after which an errand is broken off: a new leader asks sooner."""


class _Errand:
    """One thing under way. Monotonic seconds."""

    task: asyncio.Task[None]

    def __init__(self, asked: float) -> None:
        self.asked = asked
        self.progress: Progress | None = None
        self.outcome: WeightsState | None = None


class Errands:
    """What is being checked or fetched because a control plane asked.

    Args:
        fetch: brings a source's weights, or raises; shared with the shards that wait for them.
        check: says whether they are here; raises what speaks against fetching them.
        clock: the time.
    """

    def __init__(
        self,
        fetch: Callable[[Source, Tell], Awaitable[Path | None]],
        check: Callable[[Source], Awaitable[bool]],
        clock: Clock,
    ) -> None:
        self._fetch = fetch
        self._check = check
        self._clock = clock
        self._under_way: dict[tuple[str, bool], _Errand] = {}

    def state(self, source: Source, group: asyncio.TaskGroup, *, check_only: bool) -> WeightsState:
        """Say how far a source's weights are; begin with them when nothing is under way."""
        key = (held_as(source), check_only)
        errand = self._under_way.get(key)
        if errand is None or errand.task.cancelled():
            errand = self._under_way[key] = _Errand(self._clock.monotonic())
            errand.task = group.create_task(self._run(errand, source, check_only))
        errand.asked = self._clock.monotonic()
        if errand.outcome is not None:
            del self._under_way[key]
            return errand.outcome
        return WeightsState(state=CHECKING if check_only else FETCHING, progress=errand.progress)

    def expire(self) -> None:
        """Break off what nobody asked for lately."""
        before = self._clock.monotonic() - LET_GO_AFTER
        for key, errand in tuple(self._under_way.items()):
            if errand.asked <= before:
                errand.task.cancel()
                del self._under_way[key]

    async def _run(self, errand: _Errand, source: Source, check_only: bool) -> None:
        def tell(progress: Progress) -> None:
            errand.progress = progress

        try:
            if check_only:
                held = await self._check(source)
                errand.outcome = WeightsState(state=HELD if held else ABSENT)
            else:
                await self._fetch(source, tell)
                errand.outcome = WeightsState(state=HELD)
        except LlmgwError as error:
            words = f"{error.message}; {error.hint}" if error.hint else error.message
            errand.outcome = WeightsState(state=FAILED, words=words)
        except OSError as error:
            words = f"the weights can't be had: {error}"
            errand.outcome = WeightsState(state=FAILED, words=words)
