"""For how long something is so, where a look that says otherwise does not begin it anew.

What is looked at now and then is noisy: thirteen requests on average are ten at some looks. So the
time for which it was not so is taken from the time for which it was, down to nothing. Between two
looks that differ it was so for half of the time, as far as anybody knows.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spell:
    """What is remembered of it between two looks. Seconds."""

    lasts: float
    at: float
    """When it was looked at last, monotonic."""
    so: bool
    """What was seen then."""


def seen(spell: Spell | None, now: float, *, so: bool) -> Spell | None:
    """Return the spell after another look; None: it is over, or did not begin."""
    if spell is None:
        return Spell(lasts=0.0, at=now, so=True) if so else None
    passed = now - spell.at
    lasts = max(0.0, spell.lasts + passed * (so + spell.so - 1))
    return Spell(lasts=lasts, at=now, so=so) if so or lasts else None
