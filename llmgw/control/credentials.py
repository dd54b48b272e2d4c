"""Keys and tokens as text: made once, shown once, kept as a hash, compared in constant time."""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass

Entropy = Callable[[int], bytes]
"""Returns that many random bytes fit for secrets."""

SECRET_BYTES = 32
PREFIX = "llmgw"


@dataclass(frozen=True, slots=True)
class Made:
    """A new credential: `text` is shown once, `sha256` of the whole text is kept."""

    id: str
    text: str
    sha256: str


def make(credential_id: str, entropy: Entropy) -> Made:
    """Return a new credential `llmgw_<id>_<64 hexadecimal digits>`."""
    text = f"{PREFIX}_{credential_id}_{entropy(SECRET_BYTES).hex()}"
    return Made(id=credential_id, text=text, sha256=sha256(text))


def sha256(text: str) -> str:
    """Return the hexadecimal hash that stands for a credential."""
    return hashlib.sha256(text.encode()).hexdigest()


def id_of(text: str) -> str | None:
    """Return the id inside a credential's text; None when it is no credential of ours."""
    parts = text.split("_", 2)
    return parts[1] if len(parts) == 3 and parts[0] == PREFIX else None


def matches(text: str, hashed: str) -> bool:
    """Say whether a text is the credential with that hash, in constant time."""
    return hmac.compare_digest(sha256(text), hashed)
