"""A provider's replies: what a client is told of them. Nothing of the account they are paid by."""

from collections.abc import Sequence

from llmgw.gateway.refusals import Refusal

KEPT = frozenset({b"content-type", b"retry-after"})
"""Headers that are passed on. Others name the provider's organisation, limits and cookies."""
CLIENTS_FAULT = frozenset({400, 413, 422})
"""Refusals that say something about the request; all others are about the account or its key."""


def kept(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a reply that its client gets."""
    return [(name, value) for name, value in headers if name.lower() in KEPT]


def refusal_of(status: int) -> Refusal | None:
    """Return what a client is told in place of a provider's refusal; None: what it said itself."""
    if status < 400 or status in CLIENTS_FAULT:
        return None
    words = f"the provider that stands in for the model answers {status}"
    return Refusal("fallback_failed", words, "model")
