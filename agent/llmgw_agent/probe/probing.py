"""Running a probe: in its own time, never on the heartbeat's path, and never for ever."""

import asyncio
from typing import Protocol

from llmgw.base.clock import Clock
from llmgw.base.errors import TimedOut, Unreadable
from llmgw.base.limits import system_words
from llmgw.base.periodic import Periodic
from llmgw.model.node import ProbeState
from llmgw_agent.host.patience import done_within

_PAUSE = 2.0
"""Seconds between two readings at least, unless the period is shorter."""

_ENDS_WITHIN = 3.0
"""Seconds in which a reading that was given up has killed what it started."""


class Probe(Protocol):
    """A source of facts. It keeps its own last reading."""

    @property
    def name(self) -> str:
        """Return what it is called in logs and on the node's page."""
        ...

    @property
    def period(self) -> float:
        """Return the seconds between two readings; asked each time."""
        ...

    @property
    def again(self) -> float:
        """Return the seconds between two tries at most while it fails."""
        ...

    @property
    def timeout(self) -> float:
        """Return the seconds after which a reading is given up."""
        ...

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading; None when there was none."""
        ...

    async def read(self) -> str:
        """Take a reading and return a sentence that changes only when something did.

        Raises:
            LlmgwError: why there is none; the last one stays until it is too old.
        """
        ...


class _Reading:
    """A try to read, which goes on while nobody waits for it."""

    def __init__(self, probe: Probe, began: float) -> None:
        self.began = began
        self.given_up = False
        self.task: asyncio.Future[str] = asyncio.ensure_future(probe.read())

    def give_up(self) -> None:
        """Cancel it. Where it hangs in the kernel, it may stay."""
        self.given_up = True
        self.task.cancel()
        # What comes of it is nobody's any more.
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())


class Probing:
    """One probe, again and again. A failure is logged once, and its recovery.

    A period is counted from the beginning of a reading: one that takes long is not old before the
    next one is there. A pass that is cut off leaves its reading to the next one.
    """

    def __init__(self, probe: Probe, clock: Clock) -> None:
        self._probe = probe
        self._clock = clock
        self._reading: _Reading | None = None
        self._took = 0.0
        self._failed_at: float | None = None
        self._answered_at: float | None = None
        self._passes = Periodic(probe.name, self._pause, self._pass, clock)

    async def run(self) -> None:
        """Probe until cancelled."""
        await self._passes.run_forever()

    async def run_once(self) -> None:
        """Probe once, whatever comes of it."""
        await self._passes.run_once()

    def wake(self) -> None:
        """Ask for a reading now."""
        self._passes.wake()

    @property
    def finished(self) -> bool:
        """Say whether any try has come to an end, be it with a reading, an error or nothing."""
        return self._passes.last is not None

    @property
    def sentence(self) -> str | None:
        """Return what the last reading said; None when the last try failed or there was none."""
        return None if self._passes.last is None else self._passes.last.sentence

    def state(self) -> ProbeState:
        """Return how the probe is doing."""
        last, failed_at = self._passes.last, self._failed_at
        return ProbeState(
            name=self._probe.name,
            age=self._age(),
            error=None if last is None else last.error,
            failing=None if failed_at is None else self._clock.monotonic() - failed_at,
            period=self._period(),
        )

    async def close(self) -> None:
        """End a reading that still goes on."""
        if self._reading is not None:
            self._reading.give_up()
            await asyncio.wait({self._reading.task}, timeout=_ENDS_WITHIN)

    def _period(self) -> float:
        period = self._probe.period
        return period if self._failed_at is None else min(period, self._probe.again)

    def _pause(self) -> float:
        """Return the seconds until the next pass; some remain to whoever is slow."""
        period = self._period()
        if self._failed_at is not None:
            return period
        return max(period - self._took, min(period, _PAUSE))

    def _age(self) -> float | None:
        """Return the age of the reading, or of the answer that there is nothing to read here."""
        reading, answered_at = self._probe.age, self._answered_at
        if reading is not None or answered_at is None:
            return reading
        return self._clock.monotonic() - answered_at

    async def _pass(self) -> str:
        reading = await self._begun()
        try:
            sentence = await self._result(reading)
        except Exception:
            # Since the first try that failed, begun when it hung.
            self._failed_at = reading.began if self._failed_at is None else self._failed_at
            raise
        finally:
            self._took = self._clock.monotonic() - reading.began
        self._failed_at, self._answered_at = None, self._clock.monotonic()
        return sentence

    async def _begun(self) -> _Reading:
        """Return the reading to wait for: one that a pass left, or a new one.

        Raises:
            TimedOut: one that was given up is still there.
        """
        left = self._reading
        if left is not None and not left.given_up:
            return left
        if left is not None and not await done_within(self._clock, left.task, _ENDS_WITHIN):
            seconds = self._clock.monotonic() - left.began
            self._failed_at = left.began if self._failed_at is None else self._failed_at
            raise TimedOut(
                f"{self._probe.name}: a reading begun {seconds:.0f} s ago was given up "
                "and does not end"
            )
        self._reading = _Reading(self._probe, self._clock.monotonic())
        return self._reading

    async def _result(self, reading: _Reading) -> str:
        """Return what a reading says; one that takes too long is given up."""
        passed = self._clock.monotonic() - reading.began
        if not await done_within(self._clock, reading.task, max(0.0, self._probe.timeout - passed)):
            reading.give_up()
            raise TimedOut(f"{self._probe.name}: no reading within {self._probe.timeout:g} s")
        self._reading = None
        try:
            return reading.task.result()
        except OSError as error:
            raise Unreadable(system_words(error)) from error
