"""How keys stand: what they used, how much of their limits, when last."""

from llmgw.model.keys import QuotaFigures
from llmgw.model.record import Record


class Spent(Record, frozen=True, kw_only=True):
    """What a key used in some time, as the store has it by hour."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cancelled: int = 0
    failed: int = 0


class KeyStanding(Record, frozen=True, kw_only=True):
    """How a key stands: what it used, what of its limits, when last. Times since the epoch."""

    id: str
    name: str | None
    """None: it was revoked, and its use is all that is left of it."""
    revoked: bool
    hour: Spent
    """Since the full hour."""
    day: Spent
    """In the last 24 full hours, and this one."""
    last_used: float | None
    """None: not in the last day. Before this control plane led it is known by the hour."""
    used: QuotaFigures | None
    """Of its limits; see `KeyUse`."""
    over: bool
    refused: int | None
    """Requests that were refused for its limits since gateways started; None: none said so."""
    refused_at: float | None
    """When the last one was; None: not since this control plane leads."""
