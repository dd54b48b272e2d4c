"""The nodes of the cluster, as the store keeps them and the fleet knows them."""

from collections.abc import Callable

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, NotFound, Unreadable
from llmgw.control.agents import Agents
from llmgw.control.certificates import Certificates
from llmgw.control.fleet import Fleet
from llmgw.control.writing import NODES, Writing
from llmgw.model.bounds import shortened
from llmgw.model.node import WISHES, Node
from llmgw.store.interface import Store, StoredNode

logger = log.get(__name__)


class Membership:
    """Which nodes belong to the cluster, and what is wished of each.

    Args:
        store: where nodes and wishes last.
        fleet: the nodes in memory.
        agents: their streams.
        certificates: what they are let in by.
        writing: told whether what happens reaches the store.
        clock: the time.
        changed: called when a plan may look different now.
    """

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        agents: Agents,
        certificates: Certificates,
        *,
        writing: Writing,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._agents = agents
        self._certificates = certificates
        self._writing = writing
        self._clock = clock
        self._changed = changed

    async def load(self) -> None:
        """Know the nodes that the store has."""
        self._fleet.load(await self._store.nodes())

    async def set_wish(self, node: str, wish: str | None, *, actor: str) -> Node:
        """Cordon (`cordoned`), drain (`draining`) or release (None) a node.

        Raises:
            NotFound: no such node.
            Unreadable: no such wish.
        """
        if wish is not None and wish not in WISHES:
            raise Unreadable(
                f"no such wish: {shortened(wish, 60)!r}", hint=f"wishes are {', '.join(WISHES)}"
            )
        await self._store.set_wish(node, wish, actor=actor, at=self._clock.now())
        self._fleet.wish(node, wish)
        self._changed()
        known = self._fleet.node(node)
        if known is None:
            raise NotFound(f"no node {node!r}")
        return known

    async def remove(self, node: str, *, actor: str) -> None:
        """Forget a node: its certificates are denied and its stream is cut.

        Raises:
            NotFound: no such node and no certificate of it.
        """
        serials = await self._store.remove_node(node, actor=actor, at=self._clock.now())
        self._certificates.deny(serials)
        self._agents.cut(node, f"{node} was removed from the cluster by {actor}")
        self._fleet.remove(node)
        self._changed()

    async def registered(self, node: str) -> None:
        """Keep a node that registered; a store that is away must not keep it out."""
        self._changed()
        known = self._fleet.node(node)
        if known is not None:
            await self.keep(known)

    async def keep(self, node: Node) -> None:
        """Tell the store when a node was last heard."""
        heard = self._fleet.last_heard(node.id)
        if heard is None or self._fleet.node(node.id) is None:
            return
        stored = StoredNode(id=node.id, first_seen=heard, last_seen=heard, wish=node.wish)
        try:
            await self._store.put_node(stored)
        except LlmgwError as error:
            logger.warning("node not stored", node=node.id, error=error.message)
            self._writing.failed(NODES, error)
        else:
            self._writing.done(NODES)
