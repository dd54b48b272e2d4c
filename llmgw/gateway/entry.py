"""What one key used of one model: totals that never fall."""

from llmgw.model.keys import UsageTotals


class Entry:
    """What one key used of one model.

    Tokens of a running stream are added as they pass. When the engine's own count turns out lower,
    the difference is owed to what comes next, since a total never falls.
    """

    __slots__ = (
        "cancelled",
        "changed",
        "completion",
        "estimated",
        "failed",
        "key",
        "model",
        "owed",
        "prompt",
        "requests",
        "running",
    )

    def __init__(self, key: str, model: str) -> None:
        self.key = key
        self.model = model
        self.requests = 0
        self.prompt = 0
        self.completion = 0
        self.cancelled = 0
        self.estimated = 0
        self.failed = 0
        self.owed = 0
        self.running = 0
        """Accounts that are open."""
        self.changed = False

    @classmethod
    def resumed(cls, row: UsageTotals) -> "Entry":
        """Return an entry that goes on from totals."""
        entry = cls(row.key, row.model)
        entry.requests = row.requests
        entry.prompt = row.prompt_tokens
        entry.completion = row.completion_tokens
        entry.cancelled = row.cancelled
        entry.estimated = row.estimated
        entry.failed = row.failed
        return entry

    def add_completion(self, tokens: int) -> int:
        """Add tokens; return by how many the total rose."""
        tokens -= self.owed
        self.owed = max(0, -tokens)
        rise = max(0, tokens)
        self.completion += rise
        return rise

    def record(self) -> UsageTotals:
        """Return the totals."""
        return UsageTotals(
            key=self.key,
            model=self.model,
            requests=self.requests,
            prompt_tokens=self.prompt,
            completion_tokens=self.completion,
            cancelled=self.cancelled,
            estimated=self.estimated,
            failed=self.failed,
        )
