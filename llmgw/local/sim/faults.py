"""Faults, drawn by a seed: what can happen to machines, programs, links, disks and clocks.

A fault is counted when it is done. Each heals by itself after a time that the seed draws, or when
`heal` is called: after that nothing is broken any more, and what is wanted has to come about.
"""

import random
from collections import Counter
from collections.abc import Callable

from llmgw.local.sim.harm import Harm, Healing, Kinds
from llmgw.local.sim.harm_machines import OnMachines
from llmgw.local.sim.harm_network import OnNetwork
from llmgw.local.sim.harm_programs import OnPrograms
from llmgw.local.sim.world import World


class Faults:
    """Does faults to a world.

    Args:
        world: what they are done to.
        rng: draws them.
        more: further kinds.

    Attributes:
        counts: faults that were done, by kind.
        told: called with each fault in words.
    """

    def __init__(self, world: World, rng: random.Random, more: Kinds | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.told: Callable[[str], None] = lambda _words: None
        self._rng = rng
        self._healing = Healing(world)
        self.programs = OnPrograms(world, rng, self._healing)
        self.network = OnNetwork(world, rng, self._healing)
        self.machines = OnMachines(world, rng, self._healing)
        rooms: tuple[Harm, ...] = (self.programs, self.network, self.machines)
        self._kinds: Kinds = {name: one for room in rooms for name, one in room.kinds().items()}
        self._kinds |= more or {}

    def one(self) -> str:
        """Do one fault of those that can be done now; return it in words."""
        names = list(self._kinds)
        weights = [weight for weight, _ in self._kinds.values()]
        while True:
            kind = self._rng.choices(names, weights)[0]
            words = self._kinds[kind][1]()
            if words is not None:
                self.counts[kind] += 1
                self.told(f"{kind}: {words}")
                return words

    def heal(self) -> None:
        """Mend everything that is broken now."""
        self._healing.all()
