"""Books what gateways say was used, and acknowledges it once it lies in the store."""

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, Refused
from llmgw.control.gateway_session import GatewaySession
from llmgw.control.key_use import KeyUses
from llmgw.control.writing import USAGE, Writing
from llmgw.model.keys import UsageReport
from llmgw.model.link import GatewayControl, UsageTaken
from llmgw.store.interface import Store

logger = log.get(__name__)


class GatewayUsage:
    """Takes usage of every gateway, never before the store has it: a gateway keeps it until then.

    Args:
        uses: told what was booked.
    """

    def __init__(self, store: Store, writing: Writing, uses: KeyUses, clock: Clock) -> None:
        self._store = store
        self._writing = writing
        self._uses = uses
        self._clock = clock

    async def book(self, session: GatewaySession, usage: UsageReport) -> None:
        """Book what a gateway says.

        Raises:
            Refused: it says so of another gateway.
        """
        if usage.gateway != session.identity.id:
            raise Refused(f"{session.identity.id} reports usage of {usage.gateway!r}")
        try:
            if await self._store.apply_usage(usage, at=self._clock.now()):
                self._uses.used(usage)
        except LlmgwError as error:
            # Not acknowledged: the gateway keeps it and sends its totals again.
            logger.warning("usage not stored", gateway=usage.gateway, why=error.message)
            self._writing.failed(USAGE, error)
            return
        self._writing.done(USAGE)
        taken = UsageTaken(
            gateway=usage.gateway, boot=usage.boot, worker=usage.worker, sequence=usage.sequence
        )
        session.stream.send(GatewayControl(usage_taken=taken))
