"""One agent's live stream, from its welcome to its end."""

import itertools
from dataclasses import dataclass, field, replace

from llmgw.control.asks import Asks
from llmgw.control.peer import PeerStream
from llmgw.link.identity import Identity
from llmgw.model.commands import FEATURE_OF
from llmgw.model.link import AgentControl, AgentMessage, Ping
from llmgw.model.node import Register
from llmgw.model.settings import NodeSettings

_numbers = itertools.count(1)

QUIET = 2
"""Heartbeat intervals of silence after which a peer may be gone though its stream is open."""

CLASH_SHOWN = 120.0
"""Seconds after the last refused attempt for which two machines with one id stay in view."""


@dataclass(slots=True)
class AgentSession:
    """What belongs to one stream and dies with it. Times: monotonic seconds."""

    node: str
    stream: PeerStream[AgentMessage, AgentControl]
    identity: Identity
    register: Register
    opened: float
    heard: float
    """When its last message came."""
    settings: NodeSettings
    """What it was last told."""
    serials: set[str] = field(default_factory=set)
    """Its certificates: the one it connected with and those that it was given since."""
    asks: Asks = field(default_factory=Asks)
    number: int = field(default_factory=lambda: next(_numbers))
    pings: int = 0
    clashed: float | None = None
    """When another machine with this id was last refused."""
    clashed_with: str | None = None
    """Its host: it tries again and again, each time from another port, and is told of once."""
    stuck: bool = False
    ended: str | None = None
    """Why the control plane ended it, when it did."""

    @property
    def version(self) -> str:
        """Return the agent's version, for a sentence."""
        return f"llmgw {self.register.agent_version or 'of unknown version'}"

    def answers(self, kind: type) -> bool:
        """Say whether the agent lists the feature that requests of that kind need."""
        return FEATURE_OF[kind] in (self.register.features or ())

    def gives_way(self, identity: Identity, register: Register, *, silent: bool) -> bool:
        """Say whether another stream takes the place of this one.

        It comes from the same installation on the same boot of the machine; one that can't say its
        boot id is known by its certificate alone. And it comes from the same agent, or this one is
        gone: two that run at once are copies of one directory, as containers of one machine are.

        Args:
            identity: whom the other's certificate names.
            register: what the other says.
            silent: whether nothing was heard on this stream for too long.
        """
        gone = silent or self.stream.ended
        return (
            identity.serial in self.serials
            and same(self.register.machine, register.machine)
            and (gone or same(self.register.boot, register.boot))
        )

    def renewed(self, serial: str, ends: float) -> None:
        """Note the next certificate of the same installation."""
        self.serials.add(serial)
        self.identity = replace(self.identity, serial=serial, ends=ends)
        self.stream.renewed(self.identity)

    def ping(self) -> None:
        """Tell the agent that this control plane lives."""
        self.pings += 1
        self.stream.send(AgentControl(ping=Ping(number=self.pings)))


def same(ours: str | None, theirs: str | None) -> bool:
    """Say whether nothing tells them apart: a peer that can't say is not told apart."""
    return ours is None or theirs is None or ours == theirs
