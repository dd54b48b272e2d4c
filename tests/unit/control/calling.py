"""A gateway at the other end of a control plane's stream."""

import asyncio

from llmgw.base.errors import LlmgwError
from llmgw.control.plane import Plane
from llmgw.model.feed import Batch, Follow, Position
from llmgw.model.gateway import GatewayRegister
from llmgw.model.link import GatewayControl, GatewayMessage
from tests.fakes.clock import settle
from tests.fakes.peer import MemoryStream, identity


class Caller:
    """A gateway that says what a test wants."""

    def __init__(self, plane: Plane, name: str = "g1", *, serial: str = "01") -> None:
        self.name = name
        self.stream: MemoryStream[GatewayMessage, GatewayControl] = MemoryStream(
            identity("gateway", name, serial=serial), f"{name}:{serial}"
        )
        self.ended: LlmgwError | None = None
        self.task = asyncio.ensure_future(self._served(plane))

    async def _served(self, plane: Plane) -> None:
        try:
            await plane.gateways.on_gateway(self.stream)
        except LlmgwError as error:
            self.ended = error

    async def register(
        self, *, boot: str | None = "b1", features: tuple[str, ...] = ()
    ) -> "Caller":
        register = GatewayRegister(
            gateway=self.name,
            version="0.1.0",
            boot=boot,
            workers=2,
            url="http://g1:7440",
            features=features,
        )
        self.stream.say(GatewayMessage(register=register))
        await settle()
        return self

    async def follow(self, *topics: str, position: Position | None = None) -> None:
        self.stream.say(GatewayMessage(follow=Follow(topics=topics, position=position)))
        await settle()

    async def reach(self, position: Position) -> None:
        self.stream.say(GatewayMessage(reached=position))
        await settle()

    def batches(self) -> list[Batch]:
        return [one.batch for one in self.stream.sent if one.batch is not None]
