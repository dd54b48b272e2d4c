"""The store in memory, open, with its rows laid open to what a test looks at."""

from llmgw.model.events import AuditEntry, Event
from llmgw.model.hardware import HardwareChange
from llmgw.model.keys import JoinToken, Key
from llmgw.store import memory
from llmgw.store.interface import Claim, Lease, StoredCertificate, StoredNode, StoredTraffic
from llmgw.store.memory import Memory


class MemoryStore(memory.MemoryStore):
    """Everything durable, until the test ends. Whoever asks last leads, as after a kill."""

    def __init__(self) -> None:
        super().__init__(Memory())
        self._holder = "test"

    async def acquire_lease(self, claim: Claim, *, ttl: float) -> Lease:
        known = await self.lease()
        if known is not None:
            await self.release_lease(known)
        return await super().acquire_lease(claim, ttl=ttl)

    async def close(self) -> None:
        return

    @property
    def term(self) -> int:
        return self.memory.lease._term

    @property
    def key_rows(self) -> dict[str, Key]:
        return self.memory.keys._rows

    @property
    def join_tokens(self) -> dict[str, JoinToken]:
        return self.memory.join_tokens._rows

    @property
    def node_rows(self) -> dict[str, StoredNode]:
        return self.memory.nodes._nodes

    @property
    def certificates(self) -> dict[str, StoredCertificate]:
        return self.memory.nodes._certificates

    @property
    def traffic_rows(self) -> dict[str, StoredTraffic]:
        return self.memory.traffic

    @property
    def event_rows(self) -> tuple[Event, ...]:
        return tuple(self.memory.events._rows.values())

    @property
    def hardware_rows(self) -> dict[str, HardwareChange]:
        return {one.id: one for one in self.memory.hardware._every()}

    @property
    def audited(self) -> tuple[AuditEntry, ...]:
        return tuple(row.entry() for row in self.memory.audit.rows)
