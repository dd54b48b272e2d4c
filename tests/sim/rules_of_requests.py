"""What has to hold of requests, and of replicas that are to take them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from llmgw.control.plane import Plane
from llmgw.local.sim.engine import Engine
from llmgw.local.sim.machine import Machine
from llmgw.local.sim.requests import Asking
from llmgw.model.replica import LEAVING
from llmgw.model.shard import FAILED, READY, STOPPED
from tests.sim.gateway import SimGateway
from tests.sim.rules import Rules, name_of

HEARD_WITHIN = 3.0
"""Seconds within which a gateway sends nothing more to a replica that left the routes."""
LISTENS = 10.0
"""Seconds on one good stream after which a gateway knows what its leader says."""
STARTS_WITHIN = 500.0
"""Seconds after which a replica on nodes that are there is ready, or has failed."""
TORN_FOR = 200.0
"""Seconds for which a replica of several nodes may have only some of its processes, while nobody
is away: its other start may take its limit, and what is left has a limit to end."""


@dataclass
class RulesOfRequests(Rules):
    """Checks them."""

    _hears: dict[str, float] = field(default_factory=dict)
    """Since when a gateway hears whoever leads."""
    _starting: dict[str, float] = field(default_factory=dict)
    _torn: dict[str, float] = field(default_factory=dict)

    def at(self, replica: str) -> list[Asking]:
        """Return the requests that a replica's healthy engines work on.

        Those of gateways alone that wait for them, and that their leader hears.
        """
        heard = {one.host for one in self.sim.gateways if self._listens(one.name)}
        return [
            asking
            for node in self.sim.nodes
            for engine in node.machine.engines.values()
            if name_of(engine).partition("/")[0] == replica and engine.healthy
            for asking in engine.working
            if isinstance(asking, Asking) and asking.there and asking.client in heard
        ]

    def asked(self, machine: Machine, engine: Engine, client: str) -> None:
        """No request goes to a replica that left the routes."""
        self.coverage.counts["request reached an engine"] += 1
        plane = self.sim.leader()
        gateway = next((one for one in self.sim.gateways if one.host == client), None)
        if plane is None or gateway is None or not self._listens(gateway.name):
            return
        name = name_of(engine).partition("/")[0]
        replica = plane.fleet.replica(name)
        if replica is None or replica.state not in LEAVING:
            return
        for one in plane.fleet.drains():
            if one.replica == name and one.lasts >= HEARD_WITHIN:
                self.violated(
                    f"{name} on {machine.name} gets a request of {client}, and left the routes "
                    f"{one.lasts:.1f} s ago"
                )

    def each_second(self) -> None:
        """Check everything that takes time."""
        for words in self.sim.users.late:
            self.violated(words)
        plane = self.sim.leader()
        if plane is not None and plane.loads.queued():
            self.coverage.counts["second in which a request was held"] += 1
        self._note_who_hears(plane)
        self._started_in_time(plane)
        self._whole(plane)

    def _listens(self, gateway: str) -> bool:
        since = self._hears.get(gateway)
        return since is not None and self.sim.loop.time() - since >= LISTENS

    def _note_who_hears(self, plane: Plane | None) -> None:
        dark = {one.client for one in self.sim.network.links if one.stalled or any(one.silent)}
        for gateway in self.sim.gateways:
            if plane is not None and self._is_heard(plane, gateway, dark):
                self._hears.setdefault(gateway.name, self.sim.loop.time())
            else:
                self._hears.pop(gateway.name, None)

    def _is_heard(self, plane: Plane, gateway: SimGateway, dark: set[str]) -> bool:
        there = gateway.connected and plane.gateways.connected(gateway.name)
        head = next(one for one in self.sim.heads if one.plane is plane)
        frozen = head.life is not None and head.life.frozen
        return there and gateway.host not in dark and not frozen

    def _started_in_time(self, plane: Plane | None) -> None:
        """No replica is on its way for ever."""
        waits = set(self._on_their_way(plane)) if plane is not None else set[str]()
        now = self.sim.loop.time()
        for gone in self._starting.keys() - waits:
            del self._starting[gone]
        for replica in sorted(waits):
            since = self._starting.setdefault(replica, now)
            if now - since > STARTS_WITHIN:
                self.violated(f"{replica} is neither ready nor failed after {STARTS_WITHIN:g} s")

    def _on_their_way(self, plane: Plane) -> Iterator[str]:
        for one in plane.fleet.replicas():
            there = all(plane.agents.connected(shard.node) for shard in one.shards)
            if there and one.state not in {READY, FAILED, STOPPED, *LEAVING}:
                yield one.id

    def _whole(self, plane: Plane | None) -> None:
        """A replica of several nodes has all its processes or none."""
        quiet = plane is not None and all(
            plane.agents.connected(node.name) and not node.frozen for node in self.sim.nodes
        )
        if not quiet:
            self._torn.clear()
            return
        ranks: dict[str, int] = {}
        for node in self.sim.nodes:
            for engine in node.machine.engines.values():
                replica = name_of(engine).partition("/")[0]
                ranks[replica] = ranks.get(replica, 0) + 1
        torn = {one for one, count in ranks.items() if count < self.sim.operator.nodes_of(one)}
        now = self.sim.loop.time()
        for whole in self._torn.keys() - torn:
            del self._torn[whole]
        for replica in sorted(torn):
            since = self._torn.setdefault(replica, now)
            if now - since > TORN_FOR:
                count = self.sim.operator.nodes_of(replica)
                self.violated(
                    f"{replica} has {ranks[replica]} of {count} processes for {TORN_FOR:g} s"
                )
