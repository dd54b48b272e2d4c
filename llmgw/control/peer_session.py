"""One peer's live stream, an agent's or a gateway's, from its welcome to its end."""

import itertools
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from llmgw.control.peer import PeerStream
from llmgw.link.identity import Identity

_numbers = itertools.count(1)

QUIET = 2
"""Heartbeat intervals of silence after which a peer may be gone though its stream is open."""

CLASH_SHOWN = 120.0
"""Seconds after the last refused attempt for which two machines with one id stay in view."""

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(slots=True, kw_only=True)
class PeerSession(Generic[In, Out]):
    """What belongs to one stream and dies with it. Times: monotonic seconds."""

    stream: PeerStream[In, Out]
    identity: Identity
    heard: float
    """When its last message came."""
    serials: set[str] = field(default_factory=set)
    """Its certificates: the one it connected with and those that it was given since."""
    number: int = field(default_factory=lambda: next(_numbers))
    pings: int = 0
    clashed: float | None = None
    """When another peer with this id was last refused."""
    clashed_with: str | None = None
    """Its host: it tries again and again, each time from another port, and is told of once."""
    ended: str | None = None
    """Why the control plane ended it, when it did."""

    def is_quiet(self, now: float, interval: float) -> bool:
        """Say whether its peer may be gone though the stream is open.

        Args:
            now: monotonic seconds.
            interval: of heartbeats, in seconds.
        """
        return now - self.heard >= QUIET * interval

    def is_left_to(self, identity: Identity, *, quiet: bool, same_process: bool) -> bool:
        """Say whether another stream may take the place of this one.

        It shows a certificate of the same installation, and it comes from the same process, or this
        one is gone: two that run at once are copies of one directory, as containers of one machine
        are.
        """
        gone = quiet or self.stream.ended
        return identity.serial in self.serials and (gone or same_process)

    def give_place_to(self, peer: str) -> None:
        """End the stream: its peer opened a newer one."""
        self.ended = f"{self.identity.id} opened a newer stream from {peer}"
        self.stream.abort(self.ended)

    def renewed(self, serial: str, begins: float, ends: float) -> None:
        """Note the next certificate of the same installation."""
        self.serials.add(serial)
        self.identity = replace(self.identity, serial=serial, begins=begins, ends=ends)
        self.stream.renewed(self.identity)


def same(ours: str | None, theirs: str | None) -> bool:
    """Say whether nothing tells them apart: a peer that can't say is not told apart."""
    return ours is None or theirs is None or ours == theirs
