"""InfiniBand and RoCE ports: from sysfs, or from ibstat where there is no sysfs of them."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound, Unreadable
from llmgw.base.world import Files, Processes
from llmgw.model.fabric import Port
from llmgw.model.node import Heartbeat, Inventory
from llmgw_agent.host.apart import apart
from llmgw_agent.host.helper import Helper
from llmgw_agent.host.tree import Tree, TreeOf
from llmgw_agent.parse.ib_values import ACTIVE, in_order
from llmgw_agent.parse.ibstat import panic_of, read_ibstat
from llmgw_agent.parse.infiniband import IDENTITY, READINGS, identity_of, read_ports
from llmgw_agent.parse.networks import Network, read_inet6, read_routes
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.one_each import OneEach
from llmgw_agent.probe.source import Source

ROOT = Path("/sys/class/infiniband")

_SILENCE = 5.0
_TOOL_TIMEOUT = 10.0
_WITH_PORTS = 5.0
_WITHOUT_PORTS = 60.0


class PortsProbe(Source):
    """The ports of this node's adapters, with their counters.

    Reading a counter is a command to the adapter's firmware, which may hang: a helper process does
    it. All adapters share one; an adapter that did not answer gets a helper of its own until it
    does, so that it costs itself alone. What an adapter is and how it is addressed is read once a
    minute, and when one of its ports changes its state.

    Args:
        files: lists the adapters and reads the tables of networks, neither of which blocks.
        processes: runs ibstat.
        new_helper: makes a tree helper (`host.tree_side`).
        clock: the time.
        root: where the kernel has the adapters.
    """

    name = "ports"
    timeout = 60.0

    def __init__(
        self,
        files: Files,
        processes: Processes,
        new_helper: Callable[[], Helper],
        clock: Clock,
        *,
        root: Path = ROOT,
    ) -> None:
        self._files = files
        self._processes = processes
        self._helpers = OneEach(new_helper)
        self._clock = clock
        self._root = root
        self._adapters: dict[str, _Adapter] = {}
        self._networks: tuple[Network, ...] = ()
        self._asked = asyncio.Event()
        self._last: Kept[int] = Kept(clock)

    @property
    def period(self) -> float:
        """Return the seconds between two readings: a machine without ports is asked seldom."""
        return _WITHOUT_PORTS if self._last.last == 0 else _WITH_PORTS

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading of any adapter."""
        return self._last.age

    @property
    def ports(self) -> tuple[Port, ...] | None:
        """Return the ports; None: not known.

        Of a port that was not read for a minute only what it is remains, not how it is.
        """
        if self._last.last is None:
            return None
        return in_order(port for adapter in self._adapters.values() for port in adapter.known)

    async def known(self) -> tuple[Port, ...]:
        """Return the ports, once they were asked for at all."""
        await self._asked.wait()
        return self.ports or ()

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add the ports without their counters: an inventory does not change with those."""
        ports = self.ports
        if ports is not None:
            ports = tuple(msgspec.structs.replace(port, counters=None) for port in ports)
        return msgspec.structs.replace(inventory, ports=ports)

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add the ports."""
        return msgspec.structs.replace(heartbeat, ports=self.ports)

    async def read(self) -> str:
        """Read the ports of every adapter."""
        try:
            names = self._names()
            return await (self._from_sysfs(names) if names else self._from_tool())
        finally:
            self._asked.set()

    async def close(self) -> None:
        """End the helpers."""
        await self._helpers.close()

    def _names(self) -> tuple[str, ...]:
        try:
            return self._files.names(self._root)
        except OSError:
            # It is there and may not be read: ibstat may be allowed more.
            return ()

    async def _from_sysfs(self, names: Sequence[str]) -> str:
        await self._hold(names)
        troubles = await self._helpers.ask(names, self._ask)
        if len(troubles) < len(names):
            self._last.put(len(names))
        if troubles:
            raise Unreadable("; ".join(f"{name}: {e.message}" for name, e in troubles.items()))
        return _sentence(self.ports or ())

    async def _hold(self, names: Iterable[str]) -> None:
        """Hold exactly these adapters: a new one is begun, one that is gone is forgotten."""
        names = tuple(names)
        for gone in self._adapters.keys() - set(names):
            del self._adapters[gone]
        await self._helpers.hold(names)
        for name in names:
            self._adapters.setdefault(name, _Adapter(self._clock))

    async def _ask(self, name: str, helper: Helper) -> None:
        """Ask a helper for one adapter."""
        adapter = self._adapters[name]
        identify = adapter.identity_due
        if identify:
            self._networks = self._read_networks()
        request = TreeOf(
            root=str(self._root / name), wanted=(*(IDENTITY if identify else ()), *READINGS)
        )
        files = (await helper.ask(request, Tree, silence=_SILENCE)).files
        adapter.take(name, files, self._networks, identified=identify)

    def _read_networks(self) -> tuple[Network, ...]:
        return (
            *self._table("/proc/net/route", read_routes),
            *self._table("/proc/net/if_inet6", read_inet6),
        )

    def _table(self, path: str, read: Callable[[str], tuple[Network, ...]]) -> tuple[Network, ...]:
        try:
            return read(self._files.read(Path(path)).decode(errors="replace"))
        except (NotFound, Unreadable, OSError):
            return ()

    async def _from_tool(self) -> str:
        try:
            done = await self._processes.run(["ibstat"], timeout=_TOOL_TIMEOUT)
        except NotFound:
            found: tuple[Port, ...] = ()
            panic = None
        else:
            found = await apart(read_ibstat, done.out)
            panic = await apart(panic_of, f"{done.out}\n{done.err}")
        await self._hold(dict.fromkeys(port.adapter for port in found))
        for name, adapter in self._adapters.items():
            adapter.ports.put(tuple(port for port in found if port.adapter == name))
        self._last.put(len(found))
        sentence = _sentence(found)
        return f"{sentence}, told by ibstat{f': {panic}' if panic else ''}" if found else sentence


class _Adapter:
    """What is known of one adapter."""

    def __init__(self, clock: Clock) -> None:
        self.ports: Kept[tuple[Port, ...]] = Kept(clock)
        self._identity: Kept[dict[str, str]] = Kept(clock)
        self._changed = False

    @property
    def identity_due(self) -> bool:
        """Say whether its identity has to be read with the next readings."""
        return self._identity.fresh is None or self._changed

    @property
    def known(self) -> tuple[Port, ...]:
        """Return its ports; of those not read for a minute, what they are."""
        fresh = self.ports.fresh
        return tuple(map(_nameplate, self.ports.last or ())) if fresh is None else fresh

    def take(
        self,
        name: str,
        files: dict[str, str],
        networks: Sequence[Network],
        *,
        identified: bool,
    ) -> None:
        """Take a reading: of everything, or of what changes."""
        if identified:
            self._identity.put(identity_of(files))
        whole = {**(self._identity.last or {}), **files}
        ports = read_ports({f"{name}/{path}": text for path, text in whole.items()}, networks)
        states = [(port.number, port.state) for port in ports]
        before = [(port.number, port.state) for port in self.ports.last or ()]
        self._changed = not identified and states != before
        self.ports.put(ports)


def _nameplate(port: Port) -> Port:
    return Port(
        adapter=port.adapter,
        number=port.number,
        link_layer=port.link_layer,
        interface=port.interface,
        node_guid=port.node_guid,
        port_guid=port.port_guid,
    )


def _sentence(ports: Sequence[Port]) -> str:
    if not ports:
        return "no InfiniBand or RoCE ports"
    idle = [f"{port.adapter}/{port.number}" for port in ports if port.state != ACTIVE]
    named = "1 port" if len(ports) == 1 else f"{len(ports)} ports"
    return f"{named}, not active: {', '.join(idle)}" if idle else f"{named}, all active"
