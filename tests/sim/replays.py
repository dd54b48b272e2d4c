"""Commands that arrive twice, late, or after the command that takes them back.

They are what control planes did send, sent again down the stream that is open now: a network that
repeats what an earlier connection carried. The message takes the product's own way.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llmgw.control.plane import Plane
from llmgw.model.commands import Command, StartShard, StopShard
from llmgw.model.link import AgentControl
from llmgw.model.shard import ShardSpec

if TYPE_CHECKING:
    from tests.sim.simulation import Simulation

REMEMBERED = 200


@dataclass(frozen=True, slots=True)
class Carried:
    """A start that was sent once."""

    term: int
    node: str
    spec: ShardSpec
    key: str


@dataclass
class Replays:
    """Remembers starts and sends some again."""

    sim: "Simulation"
    rng: random.Random
    carried: deque[Carried] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    last: dict[str, float] = field(default_factory=dict)
    """When a node was last sent something again."""
    _number: int = 0

    def remember(self, plane: Plane, term: int, node: str, replica: str) -> None:
        """Remember a start that was just sent."""
        record = plane.fleet._nodes.get(node)
        pending = [one.spec for one in plane.fleet.shards.pending.of(replica)]
        reported = record.shards.values() if record is not None else ()
        known = [one.spec for one in reported if one.replica == replica and one.spec is not None]
        for spec in (*pending, *known)[:1]:
            self.carried.append(Carried(term, node, spec, plane.key_of(replica)))

    def start_again(self) -> str | None:
        """Send a start again that was carried out, or that was taken back since."""
        return self._send(lambda one, term: one.term == term)

    def start_of_an_older_term(self) -> str | None:
        """Send what an earlier leader sent."""
        return self._send(lambda one, term: one.term < term)

    def stop_of_an_older_term(self) -> str | None:
        """Send an earlier leader's word to stop what runs."""
        plane = self.sim.leader()
        if plane is None or plane.term < 2:
            return None
        running = [one for one in self.carried if plane.fleet.replica(one.spec.replica) is not None]
        if not running:
            return None
        one = self.rng.choice(running)
        request = StopShard(replica=one.spec.replica, rank=one.spec.rank, reason="sent long ago")
        return self._down(plane, one.node, plane.term - 1, request)

    def _send(self, of: Callable[[Carried, int], bool]) -> str | None:
        plane = self.sim.leader()
        if plane is None:
            return None
        choice = [one for one in self.carried if of(one, plane.term)]
        if not choice:
            return None
        one = self.rng.choice(choice)
        return self._down(plane, one.node, one.term, StartShard(spec=one.spec, key=one.key))

    def _down(
        self, plane: Plane, node: str, term: int, request: StartShard | StopShard
    ) -> str | None:
        session = plane.agents._sessions.get(node)
        if session is None or session.stream.ended:
            return None
        self._number += 1
        name = f"replayed-{self._number}"
        command = Command(term=term, id=name, deadline=10.0, request=request)
        session.stream.send(AgentControl(command=command))
        self.last[node] = self.sim.loop.time()
        return f"{type(request).__name__} of term {term} to {node}"
