"""What has to hold of a control plane's books: each device is one replica's, each engine known."""

from dataclasses import dataclass, field

from llmgw.control.plane import Plane
from llmgw_agent.supervise.environment import shard_of
from tests.sim.rules import Rules, name_of

UNKNOWN_FOR = 25.0
"""Seconds for which an engine may be unknown to the leader on whose stream its node is."""


@dataclass
class RulesOfBooks(Rules):
    """Checks them."""

    _unknown: dict[int, float] = field(default_factory=dict)
    _told: dict[tuple[int, str], dict[tuple[str, int], str | None]] = field(default_factory=dict)
    """What a node that is away ran, by its own last word, for each control plane."""

    def node_changed(self, plane: Plane, node: str) -> None:
        """Note what a node runs, when its stream ends; forget it when another begins."""
        seen, key = plane.fleet._nodes.get(node), (id(plane), node)
        if seen is None or seen.connected:
            self._told.pop(key, None)
        elif key not in self._told:
            self._told[key] = {shard: one.state for shard, one in seen.shards.items()}

    def each_second(self, plane: Plane) -> None:
        """What is thought of a node changes nothing of what it said it runs."""
        for node, seen in plane.fleet._nodes.items():
            told = self._told.get((id(plane), node)) if not seen.connected else None
            for shard, state in (told or {}).items():
                now = seen.shards.get(shard)
                if now is not None and now.state != state:
                    replica, rank = shard
                    self.violated(
                        f"books of {plane.server_id}: {replica}/{rank} went from {state} to "
                        f"{now.state} while {node} was away"
                    )

    def replicas_changed(self, plane: Plane) -> None:
        shards = plane.fleet.shards
        for node in plane.fleet._nodes.values():
            held: dict[str, str] = {}
            for placed in shards.held_on(node):
                spec = placed.status.spec
                for device in spec.devices if spec is not None else ():
                    other = held.setdefault(device, placed.status.replica)
                    if other != placed.status.replica:
                        names = f"{other} and {placed.status.replica}"
                        self.violated(f"books of {plane.server_id}: {device} belongs to {names}")

    def known(self) -> None:
        """Every engine of a node on the leader's stream is known to it, or soon ended."""
        plane, now = self.sim.leader(), self.sim.loop.time()
        for node in self.sim.nodes:
            if plane is None or not plane.agents.connected(node.name) or node.frozen:
                for pid in node.machine.engines:
                    self._unknown.pop(pid, None)
                continue
            seen = plane.fleet._nodes.get(node.name)
            keys = set(seen.shards) if seen is not None else set()
            keys |= {
                (p.spec.replica, p.spec.rank) for p in plane.fleet.shards.pending.on(node.name)
            }
            pids = {s.pid for s in seen.shards.values()} if seen is not None else set()
            for pid, engine in node.machine.engines.items():
                if shard_of(engine.seen.environ) in keys or pid in pids:
                    self._unknown.pop(pid, None)
                elif now - self._unknown.setdefault(pid, now) > UNKNOWN_FOR:
                    self.violated(
                        f"{node.name}: {name_of(engine)} (pid {pid}) runs and is unknown to "
                        f"{plane.server_id} for {UNKNOWN_FOR:g} s"
                    )
