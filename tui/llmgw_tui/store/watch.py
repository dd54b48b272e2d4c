"""The one task that feeds the fleet: it owns the watch and nothing else does."""

import asyncio
from typing import Protocol

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, Refused
from llmgw.client.interface import RECONNECTING, Connection, WatchBatch, WatchingClient
from llmgw_tui.store.fleet import TOPICS, Fleet

REFUSED, ENDED = "refused", "ended"
"""States of a connection beside the client's: the control plane said no, or spoke nonsense."""


class ConsoleClient(WatchingClient, Protocol):
    """The client of a console: it watches, reads logs, and is closed at the end."""

    async def close(self) -> None:
        """Close all connections."""
        ...


async def feed(fleet: Fleet, client: WatchingClient, clock: Clock) -> None:
    """Follow the fleet until cancelled; a refusal is kept as the connection's words.

    Args:
        fleet: where everything goes.
        client: lists once and watches; reconnects by itself.
        clock: when something ended.
    """
    fleet.take(
        WatchBatch(
            Connection(state=RECONNECTING, since=clock.now(), heard=None, words="connecting")
        )
    )
    try:
        async for batch in client.watch(TOPICS):
            fleet.take(batch)
            # A listing of thousands of nodes must not keep a key waiting.
            await asyncio.sleep(0)
        state, words = ENDED, "the watch ended"
    except LlmgwError as error:
        state = REFUSED if isinstance(error, Refused) else ENDED
        words = error.message if error.hint is None else f"{error.message} ({error.hint})"
    heard = fleet.connection.heard
    ended = Connection(state=state, since=clock.now(), heard=heard, words=f"{words}; r tries again")
    fleet.take(WatchBatch(ended))
