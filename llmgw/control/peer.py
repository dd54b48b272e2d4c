"""A stream as the control plane needs it: records in, records out, ended by either side.

`llmgw.link.stream.Stream` is one; a test hands in a pair of its own.
"""

from collections.abc import AsyncIterator
from typing import Protocol, TypeVar

from llmgw.base.errors import LlmgwError, Refused
from llmgw.link.identity import Identity, check_id

In_co = TypeVar("In_co", covariant=True)
Out_contra = TypeVar("Out_contra", contravariant=True)


class PeerStream(Protocol[In_co, Out_contra]):
    """One peer's stream, on the side that accepted it."""

    @property
    def identity(self) -> Identity | None:
        """Return whom the peer's certificate names."""
        ...

    @property
    def peer(self) -> str:
        """Return where the peer speaks from: `host:port`."""
        ...

    @property
    def ended(self) -> bool:
        """Say whether it is over; what came before may still wait to be read."""
        ...

    def __aiter__(self) -> AsyncIterator[In_co]:
        """Iterate over what the peer says; ends when it closes, raises when it is gone."""
        ...

    def send(self, record: Out_contra) -> None:
        """Queue a record; never blocks. A peer that does not read loses its stream."""
        ...

    def expect_every(self, seconds: float) -> None:
        """Abort the stream when the peer misses three of these intervals."""
        ...

    def renewed(self, identity: Identity) -> None:
        """Note that the peer got a new certificate: the stream ends with that one."""
        ...

    def fail(self, error: LlmgwError) -> None:
        """End the stream when what is queued is sent, and tell the peer this error."""
        ...

    def abort(self, reason: str) -> None:
        """End the stream at once."""
        ...


def certified(stream: PeerStream[In_co, Out_contra], claimed: str, kind: str) -> Identity:
    """Return whom a stream's certificate names.

    Args:
        stream: the peer's.
        claimed: the id that the peer says it has.
        kind: what it is, for a sentence: `an agent`.

    Raises:
        Refused: it shows no certificate, or one of another.
    """
    identity = stream.identity
    if identity is None:
        raise Refused(f"{kind} shows a certificate")
    check_id(identity, claimed)
    return identity
