"""Requests on their way to one agent, by id, and what comes back for them."""

import asyncio
from collections import deque
from dataclasses import dataclass

from llmgw.base.errors import Unreachable
from llmgw.model.commands import (
    ApplySettings,
    CancelRequest,
    FetchWeights,
    LogLines,
    ReadLogs,
    RemoveWeights,
    Reply,
    Request,
    StartShard,
    StopShard,
)

LINES_KEPT = 2000
"""Log lines that wait for a slow reader; the oldest are dropped and counted."""


@dataclass(slots=True)
class Asked:
    """One request that waits for its answer. `since`: monotonic seconds."""

    id: str
    words: str
    since: float
    answer: "asyncio.Future[Reply]"


class Asks:
    """What one agent was asked over one stream and has not answered yet."""

    def __init__(self) -> None:
        self._asked: dict[str, Asked] = {}
        self._inboxes: dict[str, LogInbox] = {}

    def open(self, request_id: str, request: Request, now: float) -> Asked:
        """Note a request before it is sent."""
        asked = Asked(
            id=request_id,
            words=words_of(request),
            since=now,
            answer=asyncio.get_running_loop().create_future(),
        )
        self._asked[request_id] = asked
        return asked

    def close(self, request_id: str) -> None:
        """Wait for that answer no longer."""
        self._asked.pop(request_id, None)

    def answer(self, reply: Reply) -> None:
        """Hand an answer to whoever waits for it; one that came too late is dropped."""
        asked = self._asked.get(reply.id)
        if asked is not None and not asked.answer.done():
            asked.answer.set_result(reply)

    def inbox(self, request_id: str) -> "LogInbox":
        """Open an inbox for the log lines that follow a request."""
        return self._inboxes.setdefault(request_id, LogInbox(request_id))

    def close_inbox(self, request_id: str) -> None:
        """Take no more lines for that request."""
        self._inboxes.pop(request_id, None)

    def lines(self, lines: LogLines) -> bool:
        """Hand log lines to whoever follows them; return whether anybody does."""
        inbox = self._inboxes.get(lines.request)
        if inbox is not None:
            inbox.put(lines)
        return inbox is not None

    def end(self, words: str) -> None:
        """End everything that waits: the stream is gone."""
        for asked in self._asked.values():
            if not asked.answer.done():
                asked.answer.set_exception(Unreachable(f"{words} before it could {asked.words}"))
                asked.answer.exception()  # whoever waited may be gone; then nobody asks for it
        for inbox in self._inboxes.values():
            inbox.end(words)
        self._asked.clear()
        self._inboxes.clear()


class LogInbox:
    """Lines that were read on a node and wait for a follower."""

    def __init__(self, request: str) -> None:
        self._request = request
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._ended: str | None = None
        self._event = asyncio.Event()

    def put(self, lines: LogLines) -> None:
        """Add lines; the oldest are dropped beyond what is kept."""
        self._dropped += lines.dropped
        self._lines.extend(lines.lines)
        while len(self._lines) > LINES_KEPT:
            self._lines.popleft()
            self._dropped += 1
        self._event.set()

    def end(self, words: str) -> None:
        """Say that nothing follows."""
        self._ended = words
        self._event.set()

    async def take(self) -> LogLines:
        """Return the lines that came since the last call, once there are any.

        Raises:
            Unreachable: the stream that they came over is gone.
        """
        while not self._lines and not self._dropped:
            if self._ended is not None:
                raise Unreachable(self._ended)
            self._event.clear()
            await self._event.wait()
        taken = LogLines(request=self._request, lines=tuple(self._lines), dropped=self._dropped)
        self._lines.clear()
        self._dropped = 0
        return taken


def words_of(request: Request) -> str:
    """Return what a request asks for, to be read after `asked to`."""
    match request:
        case StartShard(spec=spec):
            return f"start {spec.replica}/{spec.rank}"
        case StopShard(replica=replica, rank=rank):
            return f"stop {replica}/{rank}"
        case ApplySettings(settings=settings):
            return f"take settings version {settings.version}"
        case ReadLogs(source=source):
            return f"read the log of {source or 'the agent'}"
        case CancelRequest():
            return "stop following a log"
        case RemoveWeights(names=names):
            return f"remove {len(names)} sets of weights"
        case FetchWeights(check_only=True):
            return "look for weights"
        case FetchWeights():
            return "fetch weights"
