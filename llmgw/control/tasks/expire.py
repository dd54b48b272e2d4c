"""Lets go of what is over: unanswered starts, old failures, keys and tokens that ended long ago."""

from llmgw.base.clock import Clock
from llmgw.control.fleet import Fleet
from llmgw.control.keys import Keys
from llmgw.control.settings import LiveSettings
from llmgw.control.tokens import Tokens

EVERY = 1.0

SHOWN_FOR = 7 * 86_400.0
"""Seconds for which a key that ended stays in the list, so that people see why it is refused."""

ACTOR = "llmgw"


class Expire:
    """The pass `expire`."""

    def __init__(
        self, fleet: Fleet, keys: Keys, tokens: Tokens, settings: LiveSettings, clock: Clock
    ) -> None:
        self._fleet = fleet
        self._keys = keys
        self._tokens = tokens
        self._settings = settings
        self._clock = clock

    def period(self) -> float:
        """Return the seconds between two passes."""
        return EVERY

    async def run(self) -> str:
        """Let go, and return of what."""
        grace = self._settings.current.settings.reconcile.start_grace
        words = list(self._fleet.shards.expire(grace))
        before = self._clock.now() - SHOWN_FOR
        for key in self._keys.all():
            if key.expires is not None and key.expires < before:
                await self._keys.remove(key.id, actor=ACTOR)
                words.append(f"removed the key {key.name!r}, which ended a week ago")
        for token in self._tokens.all():
            if token.expires is not None and token.expires < before:
                await self._tokens.remove(token.id, actor=ACTOR)
                words.append(f"removed the token {token.name!r}, which ended a week ago")
        return "; ".join(words) or "nothing to let go"
