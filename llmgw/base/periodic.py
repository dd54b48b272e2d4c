"""Background passes: by period or when woken, one at a time, no retry inside."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError
from llmgw.base.log import get

log = get(__name__)


@dataclass(frozen=True, slots=True)
class PassSeen:
    """How the last pass ended. `at` is wall-clock time in seconds."""

    at: float
    sentence: str | None
    error: str | None


class Periodic:
    """Runs one idempotent pass again and again.

    A pass takes no input and returns one sentence that says what it did and why. A sentence is
    logged when it changes; that passes fail is logged once, however often the words change, and
    that they no longer do once. Only what no `LlmgwError` explains is logged with its traceback,
    the first time. A failed pass is not retried: the next one plans anew.

    Args:
        name: what the pass is called in logs and status.
        period: returns the seconds between two passes; asked each time: it can be a setting.
        run: the pass.
        clock: the time it keeps.
    """

    def __init__(
        self,
        name: str,
        period: Callable[[], float],
        run: Callable[[], Awaitable[str]],
        clock: Clock,
    ) -> None:
        self.name = name
        self.last: PassSeen | None = None
        self.passes = 0
        self._failing_since: float | None = None
        """Monotonic."""
        self._traced = False
        self._period = period
        self._run = run
        self._clock = clock
        self._wanted = False
        self._resting: asyncio.Task[None] | None = None
        """The task that waits between two passes."""

    def wake(self) -> None:
        """Ask for a pass now; several calls before it begins are one."""
        self._wanted = True
        if self._resting is not None:
            resting, self._resting = self._resting, None
            resting.cancel()

    async def run_once(self) -> PassSeen:
        """Run one pass and return how it ended."""
        sentence: str | None = None
        error: str | None = None
        try:
            sentence = await self._run()
        except Exception as failure:
            error = str(failure) or type(failure).__name__
            self._note_failure(error, failure)
        else:
            self._note_success(sentence)
        self.last = PassSeen(at=self._clock.now(), sentence=sentence, error=error)
        self.passes += 1
        return self.last

    async def run_forever(self) -> None:
        """Run passes until cancelled."""
        while True:
            self._wanted = False
            await self.run_once()
            await self._wait()

    async def _wait(self) -> None:
        """Wait for the period's end, or for `wake`.

        No task is made for it: every probe of every agent waits like this for most of its time.
        """
        if self._wanted:
            await asyncio.sleep(0)
            return
        task = self._resting = asyncio.current_task()
        try:
            await self._clock.sleep(self._period())
        except asyncio.CancelledError:
            # `wake` cut it short; somebody else may be cancelling this task besides.
            woken = self._resting is None
            if task is None or not woken or task.uncancel():
                raise
        finally:
            self._resting = None

    def _note_failure(self, error: str, failure: Exception) -> None:
        first = self._failing_since is None
        if first:
            self._failing_since = self._clock.monotonic()
        if not isinstance(failure, LlmgwError) and not self._traced:
            self._traced = True
            log.warning("pass failed", name=self.name, error=error, exc_info=failure)
        elif first:
            log.warning("pass failed", name=self.name, error=error)
        elif self.last is None or self.last.error != error:
            log.debug("pass fails otherwise", name=self.name, error=error)

    def _note_success(self, sentence: str) -> None:
        if self._failing_since is not None:
            failed = round(self._clock.monotonic() - self._failing_since, 1)
            self._failing_since, self._traced = None, False
            log.info("pass recovered", name=self.name, sentence=sentence, failed_seconds=failed)
        elif self.last is None or self.last.sentence != sentence:
            log.info("pass", name=self.name, sentence=sentence)
