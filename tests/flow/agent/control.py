"""The control plane's part of the agent's tests: welcomes, keeps what it hears, signs, commands."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from llmgw.link.server import AgentStream
from llmgw.link.stream import Stream
from llmgw.model.commands import Command, Reply, Request
from llmgw.model.link import AgentControl, AgentMessage, CertificateIssued, Ping, Welcome
from llmgw.model.node import Heartbeat, Register
from llmgw.model.settings import NodeSettings
from tests.flow.link.place import Control, Place
from tests.waiting import wait_until

INTERVAL = 0.2


class Watching(Control):
    """Serves agents as a control plane does, and remembers everything."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.term = 1
        self.settings: NodeSettings | None = None
        self.lifetime = 3600.0
        self.signed = 0
        self._ids = iter(range(1, 10_000))

    async def agent(self, stream: AgentStream) -> None:
        self.streams.append(stream)
        async for message in stream:
            self.heard.append(message)
            if message.register is not None:
                stream.send(AgentControl(welcome=self._welcome()))
            if message.heartbeat is not None:
                stream.send(AgentControl(ping=Ping(number=message.heartbeat.sequence)))
            if message.certificate_request is not None:
                self._sign(stream, message.certificate_request.csr_pem)

    def _welcome(self) -> Welcome:
        return Welcome(
            cluster="north",
            server="head",
            server_version="0.1.0",
            term=self.term,
            epoch="e1",
            heartbeat_interval=INTERVAL,
            lost_after=60.0,
            control_planes=(self.place.address,),
            settings=self.settings,
        )

    def _sign(self, stream: AgentStream, csr_pem: str) -> None:
        assert stream.identity is not None
        authority = self.place.authority
        signed = authority.sign(
            csr_pem,
            role="node",
            subject=stream.identity.id,
            now=self.place.clock.now(),
            lifetime=self.lifetime,
        )
        self.signed += 1
        identity = dataclasses.replace(stream.identity, serial=signed.serial, ends=signed.ends)
        stream.renewed(identity)
        issued = CertificateIssued(
            certificate_pem=signed.certificate_pem, authority_pem=authority.certificate_pem
        )
        stream.send(AgentControl(certificate=issued))

    @property
    def stream(self) -> Stream[AgentMessage, AgentControl]:
        """Return the newest stream."""
        newest: Stream[AgentMessage, AgentControl] = self.streams[-1]
        return newest

    def registers(self) -> list[Register]:
        return [message.register for message in self.heard if message.register is not None]

    def heartbeats(self) -> list[Heartbeat]:
        return [message.heartbeat for message in self.heard if message.heartbeat is not None]

    async def ask(self, request: Request, timeout: float = 10.0) -> Reply:
        """Send a command down the newest stream and wait for its reply."""
        number = f"c{next(self._ids)}"
        command = Command(term=self.term, id=number, deadline=10.0, request=request)
        self.stream.send(AgentControl(command=command))
        reply = await wait_until(lambda: self._reply(number), timeout, what=f"reply to {number}")
        assert reply is not None
        return reply

    def sever(self) -> None:
        """Cut the newest stream's connection as a pulled cable does."""
        self.stream.abort("severed by the test")

    def _reply(self, number: str) -> Reply | None:
        replies = (message.reply for message in self.heard if message.reply is not None)
        return next((reply for reply in replies if reply.id == number), None)


class WatchedPlace(Place):
    """A cluster whose control plane is `Watching`."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.control: Watching = Watching(self)
        self.server = self.new_server()


@asynccontextmanager
async def watched(directory: Path) -> AsyncIterator[WatchedPlace]:
    place = WatchedPlace(directory)
    await place.start()
    try:
        yield place
    finally:
        await place.end()


async def ended(task: "asyncio.Task[None]") -> None:
    """Wait for an agent to end, and raise what it raised."""
    await asyncio.wait({task}, timeout=20)
    task.result()
