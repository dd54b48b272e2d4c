"""Exponential back-off with full jitter, as a value."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before attempt n: uniform in [0, min(most, first * 2**n)].

    Full jitter keeps hundreds of peers that lost the same server from returning in step.
    """

    first: float = 0.5
    most: float = 30.0

    def limit(self, attempt: int) -> float:
        """Return the longest wait in seconds before attempt number `attempt` (0 is the first)."""
        return min(self.most, self.first * 2.0 ** min(attempt, 32))

    def delay(self, attempt: int, rng: random.Random) -> float:
        """Return a random wait in seconds before attempt number `attempt`."""
        return rng.uniform(0.0, self.limit(attempt))
