"""What every kind of fault needs: a world, chance, and a time after which it heals."""

import contextvars
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from llmgw.local.sim.world import Gateway, Head, Host, World

Kinds = dict[str, tuple[int, Callable[[], str | None]]]
"""By name: how often, and what is done. That returns None where it can't be done now."""


@dataclass
class Healing:
    """Mends what is broken, each after its time or all at once."""

    world: World
    _heals: dict[int, Callable[[], None]] = field(default_factory=dict)
    _number: int = 0

    def all(self) -> None:
        """Mend everything that is broken now."""
        for number in sorted(self._heals):
            self._heals.pop(number)()

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        """Mend something after a while, or when all is mended."""
        self._number += 1
        number = self._number
        self._heals[number] = do
        context: Any = contextvars.Context()
        self.world.loop.call_later(seconds, self._healed, number, context=context)

    def _healed(self, number: int) -> None:
        do = self._heals.pop(number, None)
        if do is not None:
            do()


@dataclass
class Harm:
    """One kind of fault, done to a world."""

    world: World
    rng: random.Random
    healing: Healing

    def kinds(self) -> Kinds:
        """Return the faults of this kind."""
        raise NotImplementedError

    def _host(self, *, running: bool = False) -> Host | None:
        hosts = [one for one in self.world.hosts if not running or one.life is not None]
        return self.rng.choice(hosts) if hosts else None

    def _head(self) -> Head | None:
        heads = [one for one in self.world.heads if one.life is not None]
        return self.rng.choice(heads) if heads else None

    def _start(self, what: Host | Head | Gateway) -> None:
        if what.life is None:
            what.start()
        elif not what.life.frozen:
            # It was told to end and is not done with that.
            self._later(1.0, self._start, what)

    def _later(self, seconds: float, do: Callable[..., None], *args: object) -> None:
        self.healing.after(seconds, lambda: do(*args))
