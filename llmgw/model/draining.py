"""How far a replica is that is given up: what it has to finish, and until when (REC-5)."""

from llmgw.base.units import show_seconds
from llmgw.model.record import Record


class Draining(Record, frozen=True, kw_only=True):
    """A replica that gets no new requests. Times in seconds since the epoch."""

    left: int | None = None
    """Replies that it has begun and not finished; None: not known."""
    until: float
    """When it is stopped at the latest, whatever it has left."""
    told: bool = False
    """Its nodes were told to stop it."""


def draining_words(one: Draining, now: float) -> str:
    """Return what a replica has to finish and when it is stopped at the latest, for a sentence."""
    if one.told:
        return "it was told to stop"
    if one.left is None:
        left = "how many replies are left is not known"
    else:
        left = f"{one.left} {'reply' if one.left == 1 else 'replies'} left"
    if one.until <= now:
        return f"{left}, stopped now"
    return f"{left}, stopped in {show_seconds(one.until - now)} at the latest"
