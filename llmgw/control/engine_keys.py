"""The keys that replicas' engines ask for: all follow from one secret in the store."""

from llmgw.control.credentials import Entropy
from llmgw.pki.tokens import engine_key
from llmgw.store.interface import Store

NAME = "engine-keys"
"""Of the secret in the store."""


class EngineKeys:
    """Each replica's key: the same under every leader.

    Args:
        entropy: makes the secret where the store has none yet.
    """

    def __init__(self, store: Store, entropy: Entropy) -> None:
        self._store = store
        self._entropy = entropy
        self._secret = b""

    async def load(self) -> None:
        """Read the secret."""
        self._secret = await self._store.secret(NAME, self._entropy(32))

    def of(self, replica: str) -> str:
        """Return a replica's key. A secret."""
        return engine_key(self._secret, replica)
