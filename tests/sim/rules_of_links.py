"""What has to hold of links: dead ones are noticed, nobody presses on a control plane, clocks."""

from collections import Counter
from dataclasses import dataclass, field

from llmgw.local.sim.loop import Life
from llmgw.local.sim.network import Link
from tests.sim.rules import Rules
from tests.sim.watch import Said

NOTICE = 3.0
"""Seconds beyond three heartbeats in which a half-open link has to be noticed."""
AT_ONCE = 125
"""Agents that may register within one second: what a control plane sustains (`link.SPREAD`)."""
AGAIN_AND_AGAIN = 12
"""Attempts of one agent within ten seconds."""


@dataclass
class RulesOfLinks(Rules):
    """Checks them."""

    _registered: Counter[int] = field(default_factory=Counter)
    _counted_since: float = 0.0

    def welcomed(self, said: Said) -> None:
        """No more agents register at once than a control plane bears."""
        second = int(said.at)
        self._registered[second] += 1
        if self._registered[second] > AT_ONCE:
            self.violated(f"{self._registered[second]} agents registered within one second")

    def attempts(self) -> None:
        """No agent presses on a control plane."""
        attempts, now = self.sim.network.attempts, self.sim.loop.time()
        seconds, self._counted_since = now - self._counted_since, now
        most = AGAIN_AND_AGAIN * max(1.0, seconds / 10)
        for host, count in attempts.items():
            if count > most and host in self.sim.by_host:
                self.violated(f"{host} dialled {count} times within {seconds:.0f} seconds")
        attempts.clear()

    def each_second(self) -> None:
        """Both ends of a half-open link notice it in time."""
        left: list[tuple[float, Link]] = []
        for at, link in self.sim.faults.network.silenced:
            since = self._silent_since(at, link)
            if since is not None:
                left.append((since, link))
        self.sim.faults.network.silenced[:] = left
        self._clocks()

    def _silent_since(self, at: float, link: Link) -> float | None:
        """Return since when a link is silent that not both ends have noticed; None: they did."""
        now, limit = self.sim.loop.time(), 3 * self.sim.interval + 1.0 + NOTICE
        # One that was deaf in one direction may have become silent in both since.
        at = max(at, link.cut_at or at)
        stuck = [
            side
            for side, end in enumerate(link.ends)
            if not end.lost and not (end.life and (end.life.over or end.life.frozen))
        ]
        if not stuck:
            self.coverage.counts["half-open link noticed"] += 1
            return None
        lives = [end.life for end in link.ends if end.life is not None]
        if any(one.frozen or (one.thawed is not None and one.thawed >= at) for one in lives):
            # Who stood still is given the time anew.
            return now if any(one.frozen for one in lives) else max(at, self._thawed(lives))
        if now - at > limit:
            sides = " and ".join(("agent", "control plane")[side] for side in stuck)
            self.violated(f"link of {link.client} silent for {limit:g} s, {sides} did not see")
        return at

    def _thawed(self, lives: list[Life]) -> float:
        return max(one.thawed or 0.0 for one in lives) + 0.001

    def _clocks(self) -> None:
        """Count the clocks that were set while a stream was open, if it is open still."""
        left, now = [], self.sim.loop.time()
        for at, name in self.sim.faults.machines.jumped:
            node = self.sim.by_name.get(name)
            if node is None:
                continue
            if now - at < 30:
                left.append((at, name))
            elif node.agent is not None and node.agent.dialer._opened_at <= at:
                self.coverage.counts["clock jumped under an open stream"] += 1
        self.sim.faults.machines.jumped[:] = left
