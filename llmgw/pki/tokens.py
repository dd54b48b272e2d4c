"""One-time tokens with which machines join, and the keys that replicas are served with."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable

from llmgw.model.keys import JoinToken
from llmgw.pki.authority import Authority


def make_join_token(
    authority: Authority,
    *,
    role: str,
    subject: str,
    now: float,
    lifetime: float,
    random_bytes: Callable[[int], bytes] = secrets.token_bytes,
) -> tuple[JoinToken, str]:
    """Return a new token's record and its text, which is shown once and kept nowhere.

    The text is `llmgw1.<sha256 of the CA>.<token id>.<secret>`: a machine compares the hash with
    the CA that answers before it sends the secret. `now` and `lifetime` in seconds.
    """
    token_id = random_bytes(8).hex()
    secret = base64.urlsafe_b64encode(random_bytes(32)).decode().rstrip("=")
    record = JoinToken(
        id=token_id,
        sha256=_sha256(secret),
        role=role,
        subject=subject,
        expires=now + lifetime,
    )
    return record, f"llmgw1.{authority.sha256}.{token_id}.{secret}"


def secret_matches(token: JoinToken, secret: str) -> bool:
    """Say whether a secret is the token's, taking as long for any wrong one."""
    return hmac.compare_digest(_sha256(secret), token.sha256)


def engine_key(secret: bytes, replica: str) -> str:
    """Return the key with which one replica's engine is asked.

    The same secret gives the same key, so that a restarted control plane can ask engines that it
    did not start; one replica's key says nothing about another's.
    """
    return hmac.new(secret, f"llmgw engine {replica}".encode(), hashlib.sha256).hexdigest()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
