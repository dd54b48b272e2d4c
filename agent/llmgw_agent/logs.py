"""Reading logs over the stream: the agent's own last lines and each engine's, and what follows."""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from llmgw.base.clock import Clock
from llmgw.base.log import LogRing
from llmgw.model.commands import LogLines, LogsRead, ReadLogs

MOST_LINES = 2000
_LONGEST_LINE = 4096
_BATCH_EVERY = 0.25
_BATCH_LINES = 200
_WAITING_LINES = 1000
"""Lines that wait for their batch before the oldest are dropped and counted."""


class EngineLogs(Protocol):
    """The engines' logs, by shard."""

    def sources(self) -> tuple[str, ...]:
        """Return the shards whose logs can be read."""
        ...

    def log(self, source: str, lines: int) -> tuple[str, ...]:
        """Return a shard's last lines; NotFound when there is no such shard."""
        ...

    def follow_log(self, source: str, follower: Callable[[str], None]) -> Callable[[], None]:
        """Hand every later line to `follower`; the returned function ends it."""
        ...


class Logs:
    """All logs of this node."""

    def __init__(self, ring: LogRing, engines: EngineLogs) -> None:
        self._ring = ring
        self._engines = engines

    def read(self, request: ReadLogs) -> LogsRead:
        """Return the last lines of a log.

        Raises:
            NotFound: there is no such shard.
        """
        count = min(request.lines, MOST_LINES)
        if request.source is None:
            lines = self._ring.tail(count)
        else:
            lines = self._engines.log(request.source, count)
        return LogsRead(lines=tuple(map(_cut, lines)), sources=self._engines.sources())

    def follow(self, source: str | None, follower: Callable[[str], None]) -> Callable[[], None]:
        """Hand every later line to `follower`; the returned function ends it.

        Raises:
            NotFound: there is no such shard.
        """
        if source is None:
            return self._ring.follow(follower)
        return self._engines.follow_log(source, follower)


class Follower:
    """One request that follows a log: batches what comes, drops the oldest of what is too much."""

    def __init__(self, request: str, send: Callable[[LogLines], None], clock: Clock) -> None:
        self._request = request
        self._send = send
        self._clock = clock
        self._lines: deque[str] = deque()
        self._dropped = 0

    def take(self, line: str) -> None:
        """Take one line; never blocks."""
        if len(self._lines) >= _WAITING_LINES:
            self._lines.popleft()
            self._dropped += 1
        self._lines.append(_cut(line))

    async def run(self) -> None:
        """Send what came, a batch each quarter second, until cancelled."""
        while True:
            await self._clock.sleep(_BATCH_EVERY)
            if not self._lines:
                continue
            count = min(len(self._lines), _BATCH_LINES)
            lines = tuple(self._lines.popleft() for _ in range(count))
            dropped, self._dropped = self._dropped, 0
            self._send(LogLines(request=self._request, lines=lines, dropped=dropped))


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…"
