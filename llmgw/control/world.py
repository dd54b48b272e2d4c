"""What a control plane takes from outside: time and randomness."""

import random
from dataclasses import dataclass

from llmgw.base.clock import Clock
from llmgw.control.credentials import Entropy


@dataclass(frozen=True, slots=True)
class World:
    """What a plane takes from outside, so that a test or a simulator can hand in its own."""

    clock: Clock
    rng: random.Random
    """For ids and spreading; never for secrets."""
    entropy: Entropy
    """For secrets: `secrets.token_bytes` but in a simulator."""
