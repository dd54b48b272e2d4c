"""A simulated machine's engine: a process that loads, serves, and ends as it was told to."""

import contextvars
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from llmgw.base.world import HttpAnswer, ProcessSeen
from llmgw.local.sim.loop import SimLoop

READY_LINES: Final = b"simulated: computes on nothing\nsimulated: listening\n"

_METRICS: Final = b"llamacpp:tokens_predicted_total %d\nllamacpp:requests_processing %d\n"
_LOADING: Final = b'{"error":{"message":"Loading model"}}'


@dataclass(frozen=True, slots=True)
class Character:
    """How an engine behaves. Seconds; None: it does not."""

    loads: float = 3.0
    dies_loading: bool = False
    """It ends in the middle of loading, with a line that says why."""
    crashes: float | None = None
    """After that long it ends by itself."""
    hangs: float | None = None
    """After that long it answers nobody any more."""
    ends: float = 0.2
    """What SIGTERM takes."""
    heeds_term: bool = True
    killed: float = 0.0
    """What SIGKILL takes: a process that waits in a driver ends late."""
    replies: float = 2.0
    """What it works on a request."""


class Engine:
    """One process in a machine's table, its port and its state."""

    def __init__(
        self,
        loop: SimLoop,
        seen: ProcessSeen,
        character: Character,
        ended: Callable[["Engine"], None],
        says: Callable[["Engine", bytes], None],
    ) -> None:
        self.seen = seen
        self.character = character
        self.began = loop.time()
        self.alive = True
        self.hung = False
        self.loaded = False
        self.ending = False
        """It was signalled, or has begun to end."""
        self.faulted: str | None = None
        """Which fault the simulation did to it."""
        self.stalled = False
        """It works on what it has and makes no token."""
        self.working: dict[object, Callable[[], None]] = {}
        """Connections with a request that it works on, and what breaks each."""
        self.tokens = 0
        self.rc: int | None = None
        self.devices = devices_of(seen.environ)
        self.port = int(option(seen.argv, "--port") or 0)
        self.key = seen.environ.get("LLMGW_ENGINE_KEY")
        self._loop = loop
        self._ended = ended
        self._says = says
        self._context = contextvars.Context()
        if character.dies_loading:
            self._later(character.loads / 2, self._die_loading)
        else:
            self._later(character.loads, self._load)

    @property
    def healthy(self) -> bool:
        """Say whether it serves and nothing was done to it."""
        return self.alive and self.loaded and not (self.hung or self.ending or self.faulted)

    def take(self, signal_: signal.Signals) -> None:
        """Take a signal."""
        if signal_ == signal.SIGKILL:
            self.ending = True
            self._later(self.character.killed, self.end, -9)
        elif self.character.heeds_term and not self.hung:
            self.ending = True
            self._later(self.character.ends, self.end, 0)

    def crash(self, rc: int = 139) -> None:
        """End by itself."""
        self.faulted = "crashed"
        self.end(rc)

    def hang(self) -> None:
        """Answer nobody any more."""
        self.faulted = "hung"
        self.hung = True

    def stall(self) -> None:
        """Answer, but make no token any more for those who wait."""
        self.faulted = "stalled"
        self.stalled = True

    def end(self, rc: int) -> None:
        """Be gone."""
        if self.alive:
            self.alive, self.rc = False, rc
            for breaks in tuple(self.working.values()):
                breaks()
            self.working.clear()
            self._ended(self)

    def answer(self, path: str, headers: Mapping[str, str]) -> HttpAnswer | None:
        """Return what it answers; None: nothing, ever."""
        if self.hung:
            return None
        if not self.loaded:
            return HttpAnswer(status=503, body=_LOADING)
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if path != "/health" and self.key is not None and given != self.key:
            return HttpAnswer(status=401, body=b"{}")
        return HttpAnswer(status=200, body=self._metrics() if path == "/metrics" else b"{}")

    def _metrics(self) -> bytes:
        requests = len(self.working) + 2 * self.stalled
        if not self.stalled:
            self.tokens += len(self.working)
        return _METRICS % (self.tokens, requests)

    def _load(self) -> None:
        if not self.alive:
            return
        self.loaded = True
        self._says(self, READY_LINES)
        if self.character.crashes is not None:
            self._later(self.character.crashes, self.crash)
        if self.character.hangs is not None:
            self._later(self.character.hangs, self.hang)

    def _die_loading(self) -> None:
        if self.alive:
            self.faulted = "did not start"
            self._says(self, b"simulated: out of memory, as it was told\n")
            self.end(1)

    def _later(self, seconds: float, do: Callable[..., None], *args: object) -> None:
        self._loop.call_later(seconds, do, *args, context=self._context)


def devices_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the devices that a process was given."""
    listed = environ.get("CUDA_VISIBLE_DEVICES", "")
    return tuple(one for one in listed.split(",") if one)


def option(argv: tuple[str, ...], name: str) -> str | None:
    """Return what follows an option."""
    return argv[argv.index(name) + 1] if name in argv else None
