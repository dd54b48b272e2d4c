"""An agent in memory and its open stream, for tests of what goes over it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from llmgw.model.commands import Command, Reply, Request
from llmgw.model.link import AgentControl, AgentMessage
from tests.fakes.agent import FakeAgent, MemoryStream, welcome
from tests.fakes.clock import settle
from tests.only import only


class Open:
    """A stream that an agent serves now."""

    def __init__(self, stream: MemoryStream, task: "asyncio.Task[float | None]") -> None:
        self.stream = stream
        self.task = task

    def kinds(self) -> list[str]:
        """Return what was sent since the last time, by the field that is set."""
        return [kind(message) for message in self.stream.take()]

    async def ask(self, request: Request | None, *, term: int = 1, id_: str = "c1") -> Reply:
        command = Command(term=term, id=id_, deadline=10.0, request=request)
        self.stream.take()
        self.stream.say(AgentControl(command=command))
        await settle()
        replies = [message.reply for message in self.stream.take() if message.reply is not None]
        return only(replies)


def kind(message: AgentMessage) -> str:
    return only([f for f in message.__struct_fields__ if getattr(message, f) is not None])


@asynccontextmanager
async def stream_of(agent: FakeAgent, **said: object) -> AsyncIterator[Open]:
    """Open a stream and welcome the agent on it."""
    stream = MemoryStream()
    task = asyncio.ensure_future(agent.core.session(stream))
    await settle()
    stream.say(welcome(**said))  # type: ignore[arg-type]
    await settle()
    yield Open(stream, task)
    if not task.done():
        stream.end()
    await task
