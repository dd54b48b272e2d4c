"""One gateway's live stream, from its welcome to its end."""

import asyncio
import itertools
import math
from dataclasses import dataclass, field, replace

from llmgw.control.peer import PeerStream
from llmgw.control.session import same
from llmgw.link.identity import Identity
from llmgw.model.gateway import GatewayRegister
from llmgw.model.link import GatewayControl, GatewayMessage

_numbers = itertools.count(1)

GatewayStream = PeerStream[GatewayMessage, GatewayControl]


@dataclass(slots=True)
class GatewaySession:
    """What belongs to one gateway's stream and dies with it. Times: monotonic seconds."""

    stream: GatewayStream
    identity: Identity
    register: GatewayRegister
    heard: float
    """When its last message came."""
    serials: set[str] = field(default_factory=set)
    """Its certificates: the one it connected with and those that it was given since."""
    number: int = field(default_factory=lambda: next(_numbers))
    pings: int = 0
    following: "asyncio.Task[None] | None" = None
    ended: str | None = None
    reached: int | None = None
    """Up to which change of the feed all its workers know; None: it does not tell."""
    clashed: float = -math.inf
    """When another gateway with this id was last refused."""
    clashed_with: str | None = None
    """Its host: it tries again and again, each time from another port."""

    def gives_way(self, identity: Identity, register: GatewayRegister, *, silent: bool) -> bool:
        """Say whether another stream takes the place of this one.

        It shows a certificate of the same installation, and it comes from the same process, or this
        one is gone: two that run at once are copies of one directory.

        Args:
            identity: whom the other's certificate names.
            register: what the other says.
            silent: whether nothing was heard on this stream for too long.
        """
        gone = silent or self.stream.ended
        return identity.serial in self.serials and (gone or same(self.register.boot, register.boot))

    def renewed(self, serial: str, ends: float) -> None:
        """Note the next certificate of the same installation."""
        self.serials.add(serial)
        self.identity = replace(self.identity, serial=serial, ends=ends)
        self.stream.renewed(self.identity)
