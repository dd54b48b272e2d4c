"""Who asks: the key ring of a worker. Nothing here reads a clock or a socket."""

import hashlib
import hmac
from collections.abc import Iterable

from llmgw.gateway.frames import TableFrame
from llmgw.gateway.refusals import Refusal, quoted
from llmgw.model.keys import Key

PREFIX = b"llmgw_"
_NOBODY = hashlib.sha256(b"").digest()
HERE, AWAY, NONE = "here", "away", "none"
RETRY_TABLE = 2
RETRY_UNKNOWN = 5
"""Seconds after which a key that is not known yet may be tried again."""


class Holder:
    """A key as requests need it: what it hashes to, until when it holds, what it may use.

    Args:
        key: its record.
        column: where its use lies in the key cells; None: it has no limits.
    """

    __slots__ = ("column", "digest", "expires", "id", "key", "models")

    def __init__(self, key: Key, column: int | None = None) -> None:
        self.id = key.id
        self.key = key
        self.column = column
        self.digest = bytes.fromhex(key.sha256)
        self.expires = key.expires
        self.models = None if key.models is None else frozenset(key.models)

    def may_use(self, model: str) -> bool:
        """Say whether its allowlist has the model; a key without one may use all."""
        return self.models is None or model in self.models


class KeyRing:
    """The keys of the table.

    `received` is False until a control plane (or the table kept on disk) gave one. `current` says
    that the control plane is there now: without it a key that is not known may be a new one, so it
    is never called wrong; nor while `sure` is False: the control plane can't ask its store.
    """

    def __init__(self) -> None:
        self.received = False
        self.current = False
        self.sure = False
        self.control_plane = AWAY
        """Whether there is one, in one word."""
        self._holders: dict[bytes, Holder] = {}

    def stand(self, frame: TableFrame) -> None:
        """Take from a frame how sure the table is."""
        self.received, self.current = frame.received, frame.current
        self.sure = frame.current and frame.keys_sure
        self.control_plane = NONE if frame.alone else HERE if frame.current else AWAY

    def health(self) -> tuple[int, dict[str, object]]:
        """Return what a health check is answered: status and body."""
        if not self.received:
            return 503, {"status": "no_table"}
        return 200, {"status": "ok", "control_plane": self.control_plane}

    def replace(self, keys: Iterable[Key]) -> None:
        """Forget all keys and take these."""
        self._holders.clear()
        for key in keys:
            self.put(key)

    def put(self, key: Key, column: int | None = None) -> None:
        """Add a key or replace the one of its id; `column` as for a `Holder`."""
        self._holders[key.id.encode()] = Holder(key, column)

    def remove(self, key_id: str) -> None:
        """Forget a key; one that is not there is no error."""
        self._holders.pop(key_id.encode(), None)

    def check(self, authorization: bytes | None, now: float) -> Holder | Refusal:
        """Return whose key an Authorization header carries, or why it is refused.

        Args:
            authorization: the header's value; None when there was none.
            now: wall-clock seconds.
        """
        if not self.received:
            words = "the gateway has not heard from a control plane yet"
            return Refusal("no_table", words, None, RETRY_TABLE)
        if authorization is None:
            return Refusal("missing_api_key", "no API key: send it as 'Authorization: Bearer KEY'")
        scheme, _, presented = authorization.partition(b" ")
        presented = presented.strip()
        if scheme.lower() != b"bearer" or not presented:
            return Refusal("invalid_api_key", "the Authorization header is not 'Bearer KEY'")
        return self._known(presented, now)

    def _known(self, presented: bytes, now: float) -> Holder | Refusal:
        key_id, _, secret = presented.removeprefix(PREFIX).partition(b"_")
        well_formed = presented.startswith(PREFIX) and bool(key_id) and bool(secret)
        holder = self._holders.get(key_id) if well_formed else None
        # One comparison in every case: the time taken does not tell which ids exist.
        same = hmac.compare_digest(
            hashlib.sha256(presented).digest(), _NOBODY if holder is None else holder.digest
        )
        if holder is None and well_formed and not self.sure:
            words = "the API key is not known here, and the control plane is away"
            if self.current:
                words = "the API key is not known here, and the store of keys is away"
            return Refusal("key_not_known_yet", words, None, RETRY_UNKNOWN)
        if holder is None or not same:
            return Refusal("invalid_api_key", "the API key is not valid")
        if holder.expires is not None and now >= holder.expires:
            return Refusal("expired_api_key", f"the API key {quoted(holder.id)} has ended")
        return holder
