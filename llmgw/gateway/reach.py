"""How far the tables of all workers are, which a change of a key waits for."""

from collections import deque
from collections.abc import Iterable

from llmgw.model.feed import Position

KEPT_MOST = 256
"""States that workers may be behind by and still be told apart; then the oldest is forgotten."""


class Reach:
    """Numbers the states of the table, and finds the newest that all workers have taken."""

    def __init__(self) -> None:
        self.number = 0
        """Of the newest state."""
        self._states: deque[tuple[int, Position]] = deque(maxlen=KEPT_MOST)

    def changed(self, position: Position | None) -> None:
        """Note that the table is another one; None: it stands for no place in the feed."""
        self.number += 1
        if position is not None:
            self._states.append((self.number, position))

    def news(self, taken: Iterable[int | None]) -> Position | None:
        """Return the newest position that all have reached, once; None when that is no news.

        Args:
            taken: the number that each worker has; None for a place without a worker, whose next
                one begins with the newest state.
        """
        least = min((number for number in taken if number is not None), default=self.number)
        found = None
        while self._states and self._states[0][0] <= least:
            found = self._states.popleft()[1]
        return found
