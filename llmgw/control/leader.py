"""Who leads, under which term, and when it may decide.

With one store that one process holds, whoever opened it leads. The term rises with each opening and
above every term that an agent has seen: a command of an earlier leader is refused by the agents.
"""

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.base.units import show_seconds
from llmgw.store.interface import Store

logger = log.get(__name__)


class Leader:
    """This control plane's leadership, and its settling after a start (REC-2).

    Args:
        store: its hold is the leadership.
        clock: the settling period is measured by it.
        holder: this control plane's id, named to whoever is refused.
    """

    def __init__(self, store: Store, clock: Clock, holder: str) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._since: float | None = None
        self._settled = False
        self.term = 0

    @property
    def leading(self) -> bool:
        """Say whether this control plane decides and commands."""
        return self._since is not None

    async def take(self) -> int:
        """Take the store and with it the leadership; return the term.

        Raises:
            Refused: another control plane holds the store, or a newer llmgw wrote it.
        """
        self.term = await self._store.open(self._holder)
        self._since = self._clock.monotonic()
        self._settled = False
        return self.term

    async def saw(self, term: int) -> None:
        """Rise above a term that an agent reported: it is older than this store, or a copy."""
        if term <= self.term:
            return
        before = self.term
        self.term = await self._store.take_term(term)
        logger.warning("an agent knows a higher term", seen=term, before=before, now=self.term)

    def resign(self) -> None:
        """Decide and command nothing any more."""
        self._since = None

    def settled(self, waiting_for: tuple[str, ...], settling: float) -> bool:
        """Say whether enough is known to start and stop things; once true it stays so for the term.

        Args:
            waiting_for: known nodes that have not reported yet.
            settling: seconds after which they are not waited for any more.
        """
        if self._since is None:
            return False
        if not self._settled:
            age = self._clock.monotonic() - self._since
            self._settled = not waiting_for or age >= settling
            if self._settled:
                logger.info(
                    "settled",
                    after=show_seconds(age),
                    missing=", ".join(waiting_for) or "nobody",
                )
        return self._settled
