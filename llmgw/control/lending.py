"""How a limit is lent to the gateways that share it. Pure: what each used and holds decides."""

from collections.abc import Sequence

import msgspec


class Standing(msgspec.Struct, frozen=True):
    """One gateway and one limit of one key."""

    told: int
    """The slice that it was told last."""
    held: int
    """The slice that it says it keeps to."""
    used: int
    """What it says was used in the window."""
    short: bool = False
    """It refused a request since it told last."""
    away: bool = False
    """It is not connected, and may go on with what it has."""

    @property
    def outstanding(self) -> int:
        """Return what it may have used before it hears anything else."""
        return max(self.told, self.held, self.used)


def lend(limit: int, standings: Sequence[Standing]) -> list[int]:
    """Return the slice that each gateway is told.

    What a gateway used stays its own, and what is free is shared: equally, or where gateways lack
    some, half of it equally among all and half among those. So one that is asked much comes to
    have nearly all within a few rounds, and one that is idle keeps a part.

    What is outstanding and lent in this call never passes the limit together, unless more was
    outstanding already: a slice is cut at once, and what that frees is lent when the gateway has
    said that it keeps to it.
    """
    outstanding = sum(one.outstanding for one in standings)
    wanted = _wanted(limit, standings)
    available = max(0, limit - outstanding)
    slices = []
    for one, want in zip(standings, wanted, strict=True):
        if one.away:
            slices.append(one.told)
            continue
        more = min(max(0, want - one.outstanding), available)
        available -= more
        slices.append(min(want, one.outstanding + more))
    return slices


def _wanted(limit: int, standings: Sequence[Standing]) -> list[int]:
    """Return what each would have if all that is free could be lent at once."""
    left = limit - sum(one.outstanding for one in standings if one.away)
    here = [at for at, one in enumerate(standings) if not one.away]
    used = sum(standings[at].used for at in here)
    wanted = [0] * len(standings)
    if not here or used >= left:
        # Nothing is free. Who used how much says how the next room is shared.
        for at in here:
            wanted[at] = max(0, left) * standings[at].used // used if used else 0
        return wanted
    for at, part in zip(here, _parts(left - used, [standings[at] for at in here]), strict=True):
        wanted[at] = standings[at].used + part
    return wanted


def _parts(free: int, here: Sequence[Standing]) -> list[int]:
    by_use = sorted(range(len(here)), key=lambda at: here[at].used)
    lacking = [at for at in by_use if here[at].short]
    for_all = free // 2 if lacking else free
    parts = [for_all // len(here)] * len(here)
    rest = free - sum(parts)
    first = lacking or by_use[::-1]
    for number, at in enumerate(first):
        parts[at] += rest // len(first) + (number < rest % len(first))
    return parts
