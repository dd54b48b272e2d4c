"""A network in memory: connections with latency, and everything that can happen to them.

Bytes of one direction stay in order, as TCP keeps them. A link can be reset, become half-open
(bytes vanish, nobody is told), or stall: what is written meanwhile arrives when it goes on.
Everything written at one moment arrives as one piece.
"""

import asyncio
import contextvars
import random
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from llmgw.local.sim.loop import LIFE, Life, SimLoop, Step

LATENCY: Final = (0.0005, 0.02)
"""Seconds that a piece travels."""

_TIDIED: Final = 64
"""Connections after which those that are over are forgotten."""

Address = tuple[str, int]


class Eof:
    """What a side sends that sends nothing more and still hears."""


EOF: Final = Eof()


class Plug:
    """What stands for a bound socket: it has an address and nothing else."""

    family = socket.AF_UNIX
    """No option of TCP is set on it."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        """Return where it is bound."""
        return self._address

    def close(self) -> None:
        """Do nothing: there is nothing below it."""


class End(asyncio.Transport):
    """One end of a link, as the protocol on it sees it."""

    def __init__(self, link: "Link", side: int, protocol: Any, own: Address, peer: Address) -> None:
        super().__init__({"sockname": own, "peername": peer, "socket": Plug(own)})
        self.context = contextvars.copy_context()
        self.life: Life | None = LIFE.get()
        self.lost = False
        """The protocol was told that the connection is over, or its process is."""
        self._link = link
        self._side = side
        self._protocol = protocol
        self._closing = False

    def write(self, data: Any) -> None:
        """Send bytes."""
        if not self._closing:
            self._link.send(self._side, bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        """Send pieces as one."""
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        """Say whether it is closed or about to be."""
        return self._closing

    def close(self) -> None:
        """Close in order: what was written still arrives."""
        if not self._closing:
            self._closing = True
            self._link.send(self._side, None)
            self._link.loop.call_soon(self.lose, None, context=self.context)

    def abort(self) -> None:
        """Close at once: what has not left is dropped, and the peer's end is reset."""
        if not self.lost:
            self._closing = True
            self._link.drop(self._side)
            self._link.loop.call_soon(self.lose, None, context=self.context)

    def lose(self, error: Exception | None) -> None:
        """Tell the protocol that the connection is over, once."""
        if not self.lost:
            self.lost = self._closing = True
            self._protocol.connection_lost(error)

    def receive(self, data: bytes) -> None:
        """Hand on what arrived; whoever closed reads nothing more."""
        if not self._closing:
            receiver = self._protocol
            assert isinstance(receiver, asyncio.Protocol)  # noqa: S101
            receiver.data_received(data)

    @property
    def whole(self) -> bool:
        """Say whether what is written still reaches the other end, both ways."""
        return self._link.open and not any(self._link.silent)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: what is written has left."""

    def can_write_eof(self) -> bool:
        """Return True."""
        return True

    def write_eof(self) -> None:
        """Tell the peer that nothing more comes; what it sends still arrives."""
        if not self._closing:
            self._link.send(self._side, EOF)

    def end_here(self) -> None:
        """Tell the protocol that its peer sends nothing more; whoever closed does not hear it."""
        if self._closing:
            return
        receiver = self._protocol
        assert isinstance(receiver, asyncio.Protocol)  # noqa: S101
        if not receiver.eof_received():
            self.close()

    def pause_reading(self) -> None:
        """Do nothing: what arrives is handed on."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def get_write_buffer_size(self) -> int:
        """Return 0: what is written has left."""
        return 0

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol."""
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand what arrives to another protocol."""
        self._protocol = protocol


@dataclass
class Link:
    """One connection. `silent`: bytes from that side vanish."""

    loop: SimLoop
    rng: random.Random
    client: str
    """Host names of both ends."""
    server: Address
    ends: tuple[End, End] = field(init=False)
    silent: list[bool] = field(default_factory=lambda: [False, False])
    stalled: bool = False
    cut_at: float | None = None
    """When it became half-open."""
    opened: float = 0.0
    _due: list[float] = field(default_factory=lambda: [0.0, 0.0])
    _coming: list[list[bytes]] = field(default_factory=lambda: [[], []])
    _flights: list[Step | None] = field(default_factory=lambda: [None, None])
    _written: list[float] = field(default_factory=lambda: [-1.0, -1.0])
    _held: list[tuple[int, "list[bytes] | Exception | Eof | None"]] = field(default_factory=list)

    @property
    def open(self) -> bool:
        """Say whether neither end is over."""
        return not (self.ends[0].lost or self.ends[1].lost)

    def send(self, side: int, data: "bytes | Eof | None") -> None:
        """Let bytes travel to the other side; None: the end of the connection."""
        if self.silent[side]:
            return
        now = self.loop.time()
        joins = self._flights[side] is not None and self._written[side] == now
        if isinstance(data, bytes) and joins:
            self._coming[side].append(data)
            return
        at = max(now + self.rng.uniform(*LATENCY), self._due[side] + 1e-6)
        self._due[side], self._written[side] = at, now
        to = self.ends[1 - side]
        if not isinstance(data, bytes):
            self._flights[side] = None
            self.loop.call_at(at, self._arrive, side, data, context=to.context)
            return
        pieces = self._coming[side] = [data]
        self._flights[side] = self.loop.call_at(at, self._arrive, side, pieces, context=to.context)

    def drop(self, side: int) -> None:
        """Reset the other side's end; it hears of it unless the link is silent."""
        if self.silent[side]:
            return
        error = ConnectionResetError("connection reset by peer")
        at = max(self.loop.time() + LATENCY[0], self._due[side] + 1e-6)
        self._due[side] = at
        to = self.ends[1 - side]
        self.loop.call_at(at, self._arrive, side, error, context=to.context)

    def reset(self) -> None:
        """Cut it so that both sides are told."""
        for end in self.ends:
            error = ConnectionResetError("connection reset")
            self.loop.call_soon(end.lose, error, context=end.context)

    def go_silent(self, *sides: int) -> None:
        """Make it half-open: what these sides write vanishes, what is under way too."""
        for side in sides:
            self.silent[side] = True
        self.cut_at = self.loop.time()

    def stall(self) -> None:
        """Hold everything back until `resume`."""
        self.stalled = True

    def resume(self) -> None:
        """Let everything arrive that was held back, in order."""
        self.stalled = False
        held, self._held = self._held, []
        for side, data in held:
            context = self.ends[1 - side].context
            self.loop.call_soon(self._arrive, side, data, context=context)

    def _arrive(self, side: int, data: "list[bytes] | Exception | Eof | None") -> None:
        if self.silent[side]:
            return
        if self.stalled or self._held:
            self._held.append((side, data))
            return
        to = self.ends[1 - side]
        if isinstance(data, list):
            to.receive(data[0] if len(data) == 1 else b"".join(data))
        elif isinstance(data, Eof):
            to.end_here()
        else:
            to.lose(data)


@dataclass
class _Listener:
    factory: Callable[[], Any]
    context: contextvars.Context
    life: Life | None


class Server(asyncio.AbstractServer):
    """A listening address."""

    def __init__(self, network: "Network", address: Address) -> None:
        self._network = network
        self._address = address

    def close(self) -> None:
        """Listen no more; what is connected stays."""
        self._network.listeners.pop(self._address, None)

    async def wait_closed(self) -> None:
        """Return at once."""

    def is_serving(self) -> bool:
        """Say whether it listens."""
        return self._address in self._network.listeners

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop."""
        return self._network.loop

    async def start_serving(self) -> None:
        """Do nothing: it listens from the beginning."""

    async def serve_forever(self) -> None:
        """Listen until cancelled."""
        await asyncio.Event().wait()


Door = Callable[[int], Callable[[], Any] | None]
"""Returns what makes the protocol that listens on a port; None: nobody does."""


class Network:
    """All listening addresses and all links.

    Args:
        loop: gets its connections from here.
        rng: latencies.
    """

    def __init__(self, loop: SimLoop, rng: random.Random) -> None:
        self.loop = loop
        self.rng = rng
        self.listeners: dict[Address, _Listener] = {}
        self.links: list[Link] = []
        self.unreachable: set[tuple[str, str]] = set()
        """(client host, server host) between which connecting hangs and what is open is silent."""
        self.doors: dict[str, Door] = {}
        """By host, what else listens there."""
        self.opened = 0
        self.attempts: Counter[str] = Counter()
        """Tries to connect, by the host that tried."""
        loop.connect, loop.listen = self._connect, self._listen

    async def bind(self, host: str, port: int) -> Any:
        """Return what stands for a socket that is bound to an address."""
        return Plug((host, port))

    def live(self) -> list[Link]:
        """Return the links of which an end is left, oldest first."""
        self.links = [one for one in self.links if not (one.ends[0].lost and one.ends[1].lost)]
        return self.links

    def end(self, life: Life) -> None:
        """Close what a killed program had open, as its kernel does."""
        for address, listener in tuple(self.listeners.items()):
            if listener.life is life:
                del self.listeners[address]
        for link in self.live():
            for side, end in enumerate(link.ends):
                if end.life is life and not end.lost:
                    end.lost = True
                    link.drop(side)

    def split(self, client: str, server: str) -> None:
        """Cut the way between two hosts: open links become half-open, new ones hang."""
        self.unreachable.add((client, server))
        for link in self.live():
            if link.client == client and link.server[0] == server:
                link.go_silent(0, 1)

    def join(self, client: str, server: str) -> None:
        """Open the way again; what is open stays dead."""
        self.unreachable.discard((client, server))

    def _listen(
        self,
        factory: Callable[[], Any],
        *_: object,
        sock: Any = None,
        **__: object,
    ) -> Server:
        address: Address = sock.getsockname()
        self.listeners[address] = _Listener(factory, contextvars.copy_context(), LIFE.get())
        return Server(self, address)

    async def _connect(
        self,
        factory: Callable[[], Any],
        host: str,
        port: int,
        **_: object,
    ) -> tuple[End, Any]:
        life = LIFE.get()
        client = "" if life is None else life.host
        self.attempts[client] += 1
        await asyncio.sleep(self.rng.uniform(*LATENCY))
        if (client, host) in self.unreachable:
            await asyncio.sleep(3600.0)
            raise TimeoutError(110, "connection timed out")
        listener = self.listeners.get((host, port)) or self._behind_a_door(host, port)
        if listener is None:
            raise ConnectionRefusedError(111, "connection refused")
        self.opened += 1
        link = Link(self.loop, self.rng, client, (host, port), opened=self.loop.time())
        here, there = (client or "client", 40_000 + self.opened), (host, port)
        protocol = factory()
        own = End(link, 0, protocol, here, there)
        accepted, end = listener.context.run(_accept, listener, link, there, here)
        link.ends = (own, end)
        self.links.append(link)
        if self.opened % _TIDIED == 0:
            self.live()
        self.loop.call_soon(accepted.connection_made, end, context=end.context)
        protocol.connection_made(own)
        return own, protocol

    def _behind_a_door(self, host: str, port: int) -> _Listener | None:
        door = self.doors.get(host)
        factory = door(port) if door is not None else None
        return None if factory is None else _Listener(factory, contextvars.Context(), None)


def _accept(listener: _Listener, link: Link, own: Address, peer: Address) -> tuple[Any, End]:
    protocol = listener.factory()
    return protocol, End(link, 1, protocol, own, peer)
