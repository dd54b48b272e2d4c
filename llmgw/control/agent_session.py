"""One agent's live stream, from its welcome to its end."""

from dataclasses import dataclass, field

from llmgw.control.asks import Asks
from llmgw.control.peer_session import PeerSession, same
from llmgw.link.identity import Identity
from llmgw.model.commands import FEATURE_OF
from llmgw.model.link import AgentControl, AgentMessage, Ping
from llmgw.model.node import Register
from llmgw.model.settings import NodeSettings


@dataclass(slots=True, kw_only=True)
class AgentSession(PeerSession[AgentMessage, AgentControl]):
    """What belongs to one agent's stream and dies with it. Times: monotonic seconds."""

    node: str
    register: Register
    opened: float
    settings: NodeSettings
    """What it was last told."""
    asks: Asks = field(default_factory=Asks)
    stuck: bool = False

    @property
    def version(self) -> str:
        """Return the agent's version, for a sentence."""
        return f"llmgw {self.register.agent_version or 'of unknown version'}"

    def answers(self, kind: type) -> bool:
        """Say whether the agent lists the feature that requests of that kind need."""
        return FEATURE_OF[kind] in (self.register.features or ())

    def gives_way(self, identity: Identity, register: Register, *, quiet: bool) -> bool:
        """Say whether another stream takes the place of this one.

        It comes from the same boot of the machine; one that can't say its boot id is known by its
        certificate alone.

        Args:
            identity: whom the other's certificate names.
            register: what the other says.
            quiet: whether nothing was heard on this stream for too long.
        """
        process = same(self.register.boot, register.boot)
        machine = same(self.register.machine, register.machine)
        return machine and self.is_left_to(identity, quiet=quiet, same_process=process)

    def ping(self) -> None:
        """Tell the agent that this control plane lives."""
        self.pings += 1
        self.stream.send(AgentControl(ping=Ping(number=self.pings)))
