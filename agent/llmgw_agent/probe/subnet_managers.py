"""Who manages the InfiniBand fabrics that this node's ports are on: sminfo and saquery."""

import asyncio
from collections.abc import Iterator, Sequence

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, Unreadable
from llmgw.base.world import Done, Processes
from llmgw.model.fabric import Port, SubnetManager
from llmgw.model.node import Heartbeat, Inventory, NodeWarning
from llmgw_agent.host.apart import apart
from llmgw_agent.parse.ib_values import ACTIVE, INFINIBAND
from llmgw_agent.parse.saquery import read_managers
from llmgw_agent.parse.sminfo import MASTER, read_sminfo
from llmgw_agent.probe.kept import OLDEST, Kept
from llmgw_agent.probe.merging import with_warnings
from llmgw_agent.probe.ports import PortsProbe
from llmgw_agent.probe.source import Source

_WITH_FABRIC = 45.0
"""Seconds; with what the tools may take it stays within the minute for which an answer counts."""
_WITHOUT_FABRIC = 60.0
_TOOL_TIMEOUT = 4.0
_SUBJECT = "fabric"

_PortId = tuple[str, int]
"""Adapter and number."""


class SubnetManagersProbe(Source):
    """The master that each active InfiniBand port sees, and all managers of each fabric.

    Ports that see one master are on one fabric, whose other managers are asked for through the
    first of them that answers. A port whose query fails or hangs costs itself: what it saw last
    counts for a minute.

    Args:
        processes: runs sminfo and saquery, which need to open /dev/infiniband/umad*.
        ports: tells which ports there are; it is asked for its own reading, not read.
        clock: the time.
    """

    name = "subnet managers"
    timeout = 45.0

    def __init__(self, processes: Processes, ports: PortsProbe, clock: Clock) -> None:
        self._processes = processes
        self._ports = ports
        self._clock = clock
        self._masters: dict[_PortId, Kept[SubnetManager | None]] = {}
        self._managers: dict[str, Kept[tuple[SubnetManager, ...]]] = {}
        self._turns: dict[str, int] = {}
        self._last: Kept[int] = Kept(clock)

    @property
    def period(self) -> float:
        """Return the seconds between two readings."""
        return _WITH_FABRIC if self._masters else _WITHOUT_FABRIC

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        return self._last.age

    @property
    def managers(self) -> tuple[SubnetManager, ...] | None:
        """Return the managers that are known to be there; None before the first answer.

        Those of a fabric that nobody told of for a minute are left out, as are those of a fabric
        that no port is known to be on any more.
        """
        if self._last.last is None:
            return None
        return tuple(
            manager for guid in self._fabrics() for manager in self._managers_of(guid) or ()
        )

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add the managers, to each port the master that it sees, and what is no longer known.

        Of a port whose master is not known any more none is told, and the managers that were seen
        through it are not either: an empty list takes the place of the last one.
        """
        told = msgspec.structs.replace(
            inventory, ports=self._joined(inventory.ports), subnet_managers=self.managers
        )
        return with_warnings(told, tuple(self._unknown()))

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add to each port the master that it sees."""
        return msgspec.structs.replace(heartbeat, ports=self._joined(heartbeat.ports))

    async def read(self) -> str:
        """Ask every active InfiniBand port for its master, and each fabric for its managers."""
        known = await self._ports.known()
        ports = [port for port in known if _on_fabric(port)]
        self._hold(ports)
        if not ports:
            self._last.put(0)
            return "; ".join(("no active InfiniBand port", *_of_no_layer(known)))
        troubles = await self._ask_masters(ports)
        if len(troubles) < len(ports):
            self._last.put(len(ports))
        elif self._never_answered and all(isinstance(one, NotFound) for one in troubles):
            return "sminfo is not installed: whose fabric the ports are on is not known"
        troubles = (*troubles, *await self._ask_managers())
        if troubles:
            raise Unreadable("; ".join(trouble.message for trouble in troubles))
        return "; ".join((self._sentence(ports), *_of_no_layer(known)))

    def _hold(self, ports: Sequence[Port]) -> None:
        """Hold exactly these ports: of one that is not active any more nothing is known."""
        self._masters = {_id(p): self._masters.get(_id(p), Kept(self._clock)) for p in ports}

    async def _ask_masters(self, ports: Sequence[Port]) -> tuple[LlmgwError, ...]:
        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(self._ask_master(_id(port))) for port in ports]
        return tuple(trouble for task in asking if (trouble := task.result()) is not None)

    async def _ask_master(self, port: _PortId) -> LlmgwError | None:
        try:
            found = await apart(read_sminfo, (await self._run("sminfo", port)).out)
        except LlmgwError as error:
            return _of_port(port, error)
        # While one manager takes over from another, ports may name one that is not master yet.
        self._masters[port].put(found if found is not None and found.state == MASTER else None)
        return None

    async def _ask_managers(self) -> tuple[LlmgwError, ...]:
        fabrics = self._fabrics()
        self._managers = {guid: self._managers.get(guid, Kept(self._clock)) for guid in fabrics}
        self._turns = {guid: turn for guid, turn in self._turns.items() if guid in fabrics}
        async with asyncio.TaskGroup() as group:
            asking = [
                group.create_task(self._ask_fabric(guid, ports)) for guid, ports in fabrics.items()
            ]
        return tuple(trouble for task in asking if (trouble := task.result()) is not None)

    async def _ask_fabric(self, guid: str, ports: Sequence[_PortId]) -> LlmgwError | None:
        """Ask through one port; after a failure the next reading takes the next port."""
        port = ports[self._turns.get(guid, 0) % len(ports)]
        try:
            found = await apart(read_managers, (await self._run("saquery", port, "SMIR")).out)
        except LlmgwError as error:
            self._turns[guid] = self._turns.get(guid, 0) + 1
            return _of_port(port, error)
        self._managers[guid].put(tuple(_seen(manager, port, guid) for manager in found))
        return None

    async def _run(self, tool: str, port: _PortId, *arguments: str) -> Done:
        argv = (tool, "-C", port[0], "-P", str(port[1]), *arguments)
        done = await self._processes.run(argv, timeout=_TOOL_TIMEOUT)
        # What went wrong is told on either.
        return done if done.out.strip() else Done(done.rc, done.err, "")

    @property
    def _never_answered(self) -> bool:
        return all(master.age is None for master in self._masters.values())

    def _fabrics(self) -> dict[str, list[_PortId]]:
        """Return by the master's GUID the ports that see it."""
        found: dict[str, list[_PortId]] = {}
        for port, kept in self._masters.items():
            if (master := kept.fresh) is not None:
                found.setdefault(master.guid, []).append(port)
        return found

    def _managers_of(self, guid: str) -> tuple[SubnetManager, ...] | None:
        """Return the managers of a fabric; None when they are not known now."""
        kept = self._managers.get(guid)
        return None if kept is None else kept.fresh

    def _unknown(self) -> Iterator[NodeWarning]:
        """Yield what was known and is not any more."""
        for guid in self._fabrics():
            kept = self._managers.get(guid)
            if kept is not None and kept.age is not None and kept.fresh is None:
                words = f"the other managers of the fabric of master {guid} are not known any more"
                yield NodeWarning(subject=_SUBJECT, words=f"{words}: saquery fails")
        for port, master in self._masters.items():
            if master.age is not None and master.age > OLDEST:
                words = f"the master that {_name(port)} sees is not known any more"
                yield NodeWarning(subject=_SUBJECT, words=f"{words}: sminfo fails")

    def _joined(self, ports: tuple[Port, ...] | None) -> tuple[Port, ...] | None:
        if ports is None:
            return None
        return tuple(
            msgspec.structs.replace(port, master_guid=self._master_of(port)) for port in ports
        )

    def _master_of(self, port: Port) -> str | None:
        kept = self._masters.get(_id(port)) if _on_fabric(port) else None
        master = None if kept is None else kept.fresh
        return None if master is None else master.guid

    def _sentence(self, ports: Sequence[Port]) -> str:
        fabrics = self._fabrics()
        seen = [
            f"master {guid} ({', '.join(map(_name, through))}), managers: "
            f"{len(self._managers_of(guid) or ())}"
            for guid, through in fabrics.items()
        ]
        alone = [_name(_id(port)) for port in ports if self._master_of(port) is None]
        return "; ".join((*seen, *(f"no subnet manager answers {name}" for name in alone)))


def _on_fabric(port: Port) -> bool:
    """Say whether a subnet manager should have configured a port.

    A LID that can't be read says nothing; RoCE has none, which tells where the layer is not known.
    """
    if port.state != ACTIVE:
        return False
    return port.link_layer == INFINIBAND or (port.link_layer is None and port.lid is not None)


def _of_no_layer(ports: Sequence[Port]) -> Iterator[str]:
    """Yield which active ports can't be told from RoCE: they are not asked."""
    for port in ports:
        if port.state == ACTIVE and port.link_layer is None and port.lid is None:
            yield f"{_name(_id(port))}: neither its link layer nor its LID can be read"


def _id(port: Port) -> _PortId:
    return port.adapter, port.number


def _name(port: _PortId) -> str:
    return f"{port[0]}/{port[1]}"


def _of_port(port: _PortId, error: LlmgwError) -> LlmgwError:
    return type(error)(f"{_name(port)}: {error.message}")


def _seen(manager: SubnetManager, port: _PortId, guid: str) -> SubnetManager:
    return msgspec.structs.replace(manager, adapter=_name(port), master_guid=guid)
