"""What was used within a sliding window, from totals that only have to be looked at now and then.

A ring holds what a total was when each of the last slots began. What was used is the total less
what it was when the oldest of them began: the window is as long as it is said to be, and up to one
slot and one pause between two looks longer, never shorter. So a limit is never passed in any window
of its length, and what is refused is refused at most that much too long.
"""

from collections.abc import MutableSequence, Sequence

import msgspec


class Window(msgspec.Struct, frozen=True):
    """A window of so many slots of so many seconds each."""

    slots: int
    seconds: float

    @property
    def cells(self) -> int:
        """Return how many totals a ring of it holds: of each slot's begin, and of the next."""
        return self.slots + 1

    def slot(self, now: float) -> int:
        """Return the number of the slot that `now` (monotonic seconds) lies in."""
        return int(now // self.seconds)


MINUTE = Window(slots=60, seconds=1.0)
DAY = Window(slots=96, seconds=900.0)


def fill(window: Window, ring: MutableSequence[int], total: int) -> None:
    """Begin with nothing used."""
    for at in range(window.cells):
        ring[at] = total


def advance(
    window: Window, ring: MutableSequence[int], newest: int, slot: int, before: int
) -> None:
    """Begin every slot after `newest` up to `slot`.

    Args:
        window: of the ring.
        ring: totals; changed.
        newest: the slot that was begun last.
        slot: the one that runs.
        before: the total at the last look. What came after it counts as of the newest slot: later
            than it was, never earlier.
    """
    for number in range(max(newest + 1, slot - window.slots), slot + 1):
        ring[number % window.cells] = before


def floor(window: Window, ring: Sequence[int], newest: int) -> int:
    """Return the total at which the window begins."""
    return ring[(newest + 1) % window.cells]


def free_in(
    window: Window,
    ring: Sequence[int],
    newest: int,
    *,
    total: int,
    limit: int,
    now: float,
    pause: float,
) -> float:
    """Return in how many seconds less than `limit` is used, if nothing more is.

    Args:
        window: of the ring.
        ring: totals.
        newest: the slot that was begun last.
        total: what it is now.
        limit: at least 1.
        now: monotonic seconds.
        pause: seconds between two looks.
    """
    begins = range(newest + 1 - window.slots, newest + 1)
    # What came after the last look counts as of the slot in which the next one is.
    last = max(newest, window.slot(now + pause)) + 1
    first = next((at for at in begins if total - ring[at % window.cells] < limit), last)
    return max(0.0, (first + window.slots) * window.seconds - now) + pause


def since_begins(window: Window, ring: Sequence[int], newest: int, total: int) -> list[int]:
    """Return what was used since each slot began, the newest first: what survives a restart."""
    return [total - ring[(newest - back) % window.cells] for back in range(window.cells)]


def resume(
    window: Window, ring: MutableSequence[int], newest: int, used: Sequence[int], passed: int
) -> None:
    """Go on from what `since_begins` returned so many slots ago, with a total of zero."""
    for back in range(window.cells):
        then = back - passed
        ring[(newest - back) % window.cells] = -used[then] if 0 <= then < len(used) else 0
