"""Who may ask: tokens, roles, and a bound on wrong tries.

Nobody is trusted by address, and no header says who asks: a request is its token, compared by hash
in constant time. A peer's address only counts its wrong tries.
"""

import hashlib
import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable

from llmgw.base import log
from llmgw.base.clock import Clock
from llmgw.base.errors import Refused
from llmgw.control.api.answer import TurnedAway
from llmgw.control.api.operation import Caller
from llmgw.control.tokens import Tokens
from llmgw.model.keys import ADMIN, METRICS, OPERATE, READ

logger = log.get(__name__)

RANK = {METRICS: 0, READ: 1, OPERATE: 2, ADMIN: 3}
"""What a role may do, a higher one may too. Whoever may read may read the metrics."""

TRIES = 10
"""Wrong tokens that a peer may send in a row."""
REFILL_SECONDS = 6.0
"""After which it may send one more."""
_REMEMBERED = 4096

_SCHEME = {"WWW-Authenticate": "Bearer"}


class WrongTries:
    """A bucket of tries for each peer: the least recently seen peers are forgotten first.

    Args:
        clock: what refills a bucket.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._peers: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, peer: str) -> float:
        """Return the seconds until this peer may try again; 0 when it may now."""
        left = self._left(peer)
        return 0.0 if left >= 1.0 else (1.0 - left) * REFILL_SECONDS

    def count(self, peer: str) -> None:
        """Count one wrong try."""
        left = self._left(peer)
        if left == TRIES or 1.0 <= left < 2.0:
            # The first of a row, and the last that is let through: not each of them.
            logger.warning("a wrong admin token was sent", peer=peer, tries_left=int(left) - 1)
        self._peers[peer] = (max(0.0, left - 1.0), self._clock.monotonic())
        self._peers.move_to_end(peer)
        if len(self._peers) > _REMEMBERED:
            self._peers.popitem(last=False)

    def _left(self, peer: str) -> float:
        known = self._peers.get(peer)
        if known is None:
            return float(TRIES)
        left, at = known
        return min(float(TRIES), left + (self._clock.monotonic() - at) / REFILL_SECONDS)


class Gate:
    """Lets requests in by their token.

    A peer that used up its wrong tries is not heard, but for tokens that opened before: somebody
    else's wrong script on the same machine locks no operator out.

    Args:
        tokens: the operators' tokens.
        clock: what wrong tries are counted over.
    """

    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens = tokens
        self._tries = WrongTries(clock)
        self._proven: OrderedDict[bytes, None] = OrderedDict()

    def admit(self, header: str | None, peer: str | None, role: str) -> Caller:
        """Return who asks.

        Raises:
            TurnedAway: 401 without a token or with a wrong one; 429 after too many wrong ones.
            Refused: the token's role does not suffice.
        """
        text = _bearer(header)
        if text is None:
            raise TurnedAway(
                401,
                "unauthorized",
                "a token is needed",
                hint="commands: LLMGW_TOKEN_FILE; programs: `Authorization: Bearer TOKEN`",
                headers=_SCHEME,
            )
        caller = self._known(text, _network(peer))
        if RANK.get(caller.role, -1) < RANK[role]:
            raise Refused(
                f"the token {caller.name!r} has the role {caller.role}, this needs {role}",
                hint="ask somebody with the role admin for another token",
            )
        return caller

    def still(self, header: str | None) -> Callable[[], bool]:
        """Return what says whether the token of a long answer still opens."""
        text = _bearer(header)
        return lambda: text is None or self._tokens.who(text) is not None

    def _known(self, text: str, peer: str) -> Caller:
        digest = hashlib.sha256(text.encode()).digest()
        wait = self._tries.wait(peer)
        if wait > 0 and digest not in self._proven:
            raise TurnedAway(
                429,
                "too_many_tries",
                "too many wrong tokens came from this address",
                hint=f"try again in {math.ceil(wait)} s",
                headers={"Retry-After": str(math.ceil(wait))},
            )
        token = self._tokens.who(text)
        if token is None:
            self._proven.pop(digest, None)
            self._tries.count(peer)
            raise TurnedAway(
                401,
                "unauthorized",
                "the token is not known, or it ended",
                hint="check the context's token file; a new one: llmgw ctl token add NAME",
                headers=_SCHEME,
            )
        self._proven[digest] = None
        if len(self._proven) > _REMEMBERED:
            self._proven.popitem(last=False)
        return Caller(name=token.name, role=token.role)


def _bearer(header: str | None) -> str | None:
    scheme, _, text = (header or "").partition(" ")
    text = text.strip()
    return text if scheme.lower() == "bearer" and text else None


def _network(peer: str | None) -> str:
    """Return what wrong tries are counted for: an address, or a site's /64 of IPv6 addresses."""
    try:
        address = ipaddress.ip_address(peer or "")
    except ValueError:
        return peer or "unknown"
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address.packed[:8] + bytes(8), 64)))
