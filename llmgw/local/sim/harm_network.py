"""Faults of the network: machines cut off, links that are reset, half-open or stalled."""

from dataclasses import dataclass, field
from typing import Final

from llmgw.local.sim.harm import Harm, Kinds
from llmgw.local.sim.network import Link
from llmgw.local.sim.world import Host

_WITH_REQUESTS: Final = 0.5
"""Share of the machines that are cut off which gateways reach no more either."""


@dataclass
class OnNetwork(Harm):
    """Does them.

    Attributes:
        silenced: links that were made half-open, with the time: both ends have to notice.
    """

    silenced: list[tuple[float, Link]] = field(default_factory=list)

    def kinds(self) -> Kinds:
        """Return the faults of the network."""
        return {
            "node away": (7, self.node_away),
            "many nodes away": (2, self.many_away),
            "link half-open": (6, self.link_silent),
            "link deaf in one direction": (3, self.link_half_silent),
            "link reset": (6, self.link_reset),
            "link stalled": (5, self.link_stalled),
            "connection to an engine reset": (3, self.data_reset),
            "connection to an engine half-open": (2, self.data_silent),
        }

    def node_away(self) -> str | None:
        """Cut a machine off from every control plane."""
        host = self._host()
        if host is None or self._is_away(host):
            return None
        seconds = self.rng.choice((5.0, 25.0, 70.0, 150.0))
        self._away(host, seconds)
        return f"{host.name} for {seconds:g} s"

    def many_away(self) -> str | None:
        """Cut more than a third of all machines off at once."""
        count = len(self.world.hosts) // 2
        if count < 3:
            return None
        seconds = self.rng.uniform(75.0, 130.0)
        for host in self.rng.sample(list(self.world.hosts), count):
            if not self._is_away(host):
                self._away(host, seconds)
        return f"{count} for {seconds:.0f} s"

    def link_silent(self) -> str | None:
        """Make a link half-open: nothing passes, and nobody is told."""
        return self._silence(0, 1)

    def link_half_silent(self) -> str | None:
        """Let one direction of a link pass nothing."""
        return self._silence(self.rng.randrange(2))

    def link_reset(self) -> str | None:
        """Cut a link so that both sides are told."""
        link = self._link()
        if link is None:
            return None
        link.reset()
        return self._name(link)

    def link_stalled(self) -> str | None:
        """Hold back what a link carries, and let it all arrive later."""
        link = self._link()
        if link is None or link.stalled:
            return None
        link.stall()
        seconds = self.rng.choice((2.0, 8.0, 14.0, 40.0))
        self.healing.after(seconds, link.resume)
        return f"{self._name(link)} for {seconds:g} s"

    def data_reset(self) -> str | None:
        """Cut a connection that carries requests so that both sides are told."""
        link = self._link(data=True)
        if link is None:
            return None
        link.reset()
        return f"{link.client} to {link.server[0]}"

    def data_silent(self) -> str | None:
        """Let a connection that carries requests pass nothing more, and tell nobody."""
        link = self._link(data=True)
        if link is None:
            return None
        link.go_silent(0, 1)
        return f"{link.client} to {link.server[0]}"

    def _link(self, *, data: bool = False) -> Link | None:
        """Return a link to a control plane, or one of a gateway to an engine."""
        engines = {host.machine.host for host in self.world.hosts}
        heads = {head.host for head in self.world.heads}
        links = [
            one
            for one in self.world.network.live()
            if one.open and not any(one.silent) and one.server[0] in (engines if data else heads)
        ]
        return self.rng.choice(links) if links else None

    def _silence(self, *sides: int) -> str | None:
        link = self._link()
        if link is None:
            return None
        link.go_silent(*sides)
        self.silenced.append((self.world.loop.time(), link))
        return self._name(link)

    def _name(self, link: Link) -> str:
        found = [host.name for host in self.world.hosts if host.machine.host == link.client]
        found += [one.name for one in self.world.gateways if one.host == link.client]
        return found[0] if found else link.client

    def _is_away(self, host: Host) -> bool:
        return any(client == host.machine.host for client, _ in self.world.network.unreachable)

    def _away(self, host: Host, seconds: float) -> None:
        network, here = self.world.network, host.machine.host
        for link in network.live():
            if link.client == here:
                self.silenced.append((self.world.loop.time(), link))
        ways = [(here, head.host) for head in self.world.heads]
        if self.rng.random() < _WITH_REQUESTS:
            ways += [(gateway.host, here) for gateway in self.world.gateways]
        for way in ways:
            network.split(*way)

        def back() -> None:
            for way in ways:
                network.join(*way)

        self.healing.after(seconds, back)
