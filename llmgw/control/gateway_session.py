"""One gateway's live stream, from its welcome to its end."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

from llmgw.control.engine_loads import Telling
from llmgw.control.peer import PeerStream
from llmgw.control.peer_session import PeerSession, same
from llmgw.link.identity import Identity
from llmgw.model.gateway import Gateway, GatewayRegister
from llmgw.model.link import GatewayControl, GatewayMessage, Ping

SETTLES = 0.6
"""Seconds after which a gateway's workers go by what it was told, and it has told what they began
until then: it looks at that each 0.5 s."""
_PINGS_MOST = 64
"""Pings without an answer that are remembered."""

GatewayStream = PeerStream[GatewayMessage, GatewayControl]


@dataclass(slots=True, kw_only=True)
class GatewaySession(PeerSession[GatewayMessage, GatewayControl]):
    """What belongs to one gateway's stream and dies with it."""

    register: GatewayRegister
    following: "asyncio.Task[None] | None" = None
    reached: int | None = None
    """Up to which change of the feed all its workers know; None: it does not tell."""
    telling: Telling | None = None
    """What it was told of engines' loads; None: it does not take them."""
    cut: set[str] = field(default_factory=set)
    """Of which fields it said more than is kept."""
    settled: float | None = None
    """All that it was told before this moment it goes by, and what it had in flight at the replicas
    that it was then told to leave has been said here. Monotonic seconds; None: not known."""
    _pinged: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_PINGS_MOST))
    """Number and moment of each ping that was not answered yet."""
    _answers: list[tuple[float, float]] = field(default_factory=list)
    """When a ping was sent and when its answer came, oldest first."""

    def gives_way(self, identity: Identity, register: GatewayRegister, *, quiet: bool) -> bool:
        """Say whether another stream takes the place of this one.

        Args:
            identity: whom the other's certificate names.
            register: what the other says.
            quiet: whether nothing was heard on this stream for too long.
        """
        process = same(self.register.boot, register.boot)
        return self.is_left_to(identity, quiet=quiet, same_process=process)

    def shown(self, now: float) -> Gateway:
        """Return what people are shown of a gateway that has just connected."""
        return Gateway(
            id=self.identity.id,
            connected=True,
            version=self.register.version,
            url=self.register.url,
            workers=self.register.workers,
            peer=self.stream.peer,
            since=now,
            certificate_ends=self.identity.ends,
            certificate_begins=self.identity.begins,
        )

    def ping(self, now: float) -> None:
        """Tell the gateway that this control plane lives; it answers, having no heartbeat."""
        self.pings += 1
        self._pinged.append((self.pings, now))
        self.stream.send(GatewayControl(ping=Ping(number=self.pings)))

    def answered(self, number: int, now: float) -> bool:
        """Note the answer to a ping; return whether `settled` is news.

        One answer says that the gateway has all that was sent before the ping. The answer to a
        second ping, sent once that had settled, comes after all that it then told.
        """
        while self._pinged and self._pinged[0][0] < number:
            self._pinged.popleft()
        if not self._pinged or self._pinged[0][0] != number:
            return False
        _, sent = self._pinged.popleft()
        over = [one for one in self._answers if one[1] + SETTLES <= sent]
        if over:
            self.settled = over[-1][0]
        self._answers = [*self._answers[len(over) :], (sent, now)]
        return bool(over)
