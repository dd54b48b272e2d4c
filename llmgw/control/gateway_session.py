"""One gateway's live stream, from its welcome to its end."""

import asyncio
from dataclasses import dataclass, field

from llmgw.control.peer import PeerStream
from llmgw.control.peer_session import PeerSession, same
from llmgw.link.identity import Identity
from llmgw.model.gateway import GatewayRegister
from llmgw.model.link import GatewayControl, GatewayMessage, Ping

GatewayStream = PeerStream[GatewayMessage, GatewayControl]


@dataclass(slots=True, kw_only=True)
class GatewaySession(PeerSession[GatewayMessage, GatewayControl]):
    """What belongs to one gateway's stream and dies with it."""

    register: GatewayRegister
    following: "asyncio.Task[None] | None" = None
    reached: int | None = None
    """Up to which change of the feed all its workers know; None: it does not tell."""
    cut: set[str] = field(default_factory=set)
    """Of which fields it said more than is kept."""

    def gives_way(self, identity: Identity, register: GatewayRegister, *, quiet: bool) -> bool:
        """Say whether another stream takes the place of this one.

        Args:
            identity: whom the other's certificate names.
            register: what the other says.
            quiet: whether nothing was heard on this stream for too long.
        """
        process = same(self.register.boot, register.boot)
        return self.is_left_to(identity, quiet=quiet, same_process=process)

    def ping(self) -> None:
        """Tell the gateway that this control plane lives; it answers, having no heartbeat."""
        self.pings += 1
        self.stream.send(GatewayControl(ping=Ping(number=self.pings)))
