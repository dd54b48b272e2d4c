"""Running a probe: in its own time, never on the heartbeat's path, and never for ever."""

import asyncio
from typing import Protocol

from llmgw.base.clock import Clock
from llmgw.base.errors import TimedOut
from llmgw.base.periodic import Periodic
from llmgw.model.node import ProbeState
from llmgw_agent.host.patience import done_within


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


class Probing:
    """One probe, again and again. A failure is logged once, and its recovery."""

    def __init__(self, probe: Probe, clock: Clock) -> None:
        self._probe = probe
        self._clock = clock
        self._hanging: asyncio.Future[str] | None = None
        self._failed_at: float | None = None
        self._answered_at: float | None = None
        self._passes = Periodic(probe.name, self._period, self._pass, clock)

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

    def _period(self) -> float:
        period = self._probe.period
        return period if self._failed_at is None else min(period, self._probe.again)

    def _age(self) -> float | None:
        """Return the age of the reading, or of the answer that there is nothing to read here."""
        reading, answered_at = self._probe.age, self._answered_at
        if reading is not None or answered_at is None:
            return reading
        return self._clock.monotonic() - answered_at

    async def _pass(self) -> str:
        began = self._clock.monotonic()
        try:
            sentence = await self._read()
        except Exception:
            # Since the first try that failed, begun when it hung.
            self._failed_at = began if self._failed_at is None else self._failed_at
            raise
        self._failed_at, self._answered_at = None, self._clock.monotonic()
        return sentence

    async def _read(self) -> str:
        if self._hanging is not None and not self._hanging.done():
            raise TimedOut(f"{self._probe.name}: the last reading still hangs")
        reading = asyncio.ensure_future(self._probe.read())
        self._hanging = reading
        try:
            if await done_within(self._clock, reading, self._probe.timeout):
                return reading.result()
        finally:
            reading.cancel()
        raise TimedOut(f"{self._probe.name}: no reading within {self._probe.timeout:g} s")
