"""Running nvidia-smi for several sources, cheaply where it is not."""

from typing import Final

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound, Unreadable
from llmgw.base.world import Done, Processes
from llmgw_agent.host.apart import apart
from llmgw_agent.parse.nvidia_smi_errors import read_failure

TIMEOUT: Final = 15.0
"""Seconds for one run. Without persistence mode the driver first initialises every card."""

OFTEN: Final = 45.0
"""Seconds between the beginnings of readings that count for a minute: a run of `TIMEOUT` seconds
still fits in."""

SELDOM: Final = 60.0
"""Seconds between two looks where the tool or the cards are not."""

_VANISHED: Final = 5.0
"""Seconds for which a tool that was there is not looked for again."""


class NvidiaSmi:
    """The tool; whether it is on this machine is found out by whoever asks first.

    That is believed for a minute, and for a few seconds where it was there before.
    """

    def __init__(self, processes: Processes, clock: Clock) -> None:
        self._processes = processes
        self._clock = clock
        self._missed: float | None = None
        self._was_there = False

    async def run(self, *arguments: str) -> Done:
        """Run it and return what it printed, whatever its exit status.

        Raises:
            NotFound: it is not on this machine.
            TimedOut: it hangs; it was killed, or can't be.
            Unreadable: it printed without end; it was killed.
        """
        believed = _VANISHED if self._was_there else SELDOM - 1
        if self._missed is not None and self._clock.monotonic() - self._missed < believed:
            raise NotFound("nvidia-smi: no such program")
        try:
            done = await self._processes.run(["nvidia-smi", *arguments], timeout=TIMEOUT)
        except NotFound:
            self._missed = self._clock.monotonic()
            raise
        self._missed, self._was_there = None, True
        return done

    async def ask(self, *arguments: str) -> str | None:
        """Return what it printed; None when it says that this machine has no cards.

        Raises:
            NotFound: it is not on this machine.
            TimedOut: it hangs; it was killed.
            Unreadable: it failed; the message says why.
        """
        done = await self.run(*arguments)
        if done.rc == 0:
            return done.out
        await apart(lambda _: explain_failure(done, f"nvidia-smi {' '.join(arguments)}"), done.out)
        return None


def explain_failure(done: Done, what: str) -> None:
    """Return when a run failed because there are no cards.

    Raises:
        Unreadable: it failed for another reason.
    """
    seen = read_failure(f"{done.out}\n{done.err}", done.rc)
    if seen.warning is not None:
        raise Unreadable(f"{what}: {seen.warning}")
