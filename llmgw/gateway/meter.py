"""How requests went, as totals of one worker that never fall."""

from bisect import bisect_left

from llmgw.model.gateway import (
    ChoiceCount,
    FallbackCount,
    Histogram,
    ModelTraffic,
    RefusalCount,
    ReplyCount,
)

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds of the histograms of whole replies, in seconds."""
TOKEN_BOUNDS = (
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.03,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.3,
    0.5,
    1.0,
    3.0,
)
"""The same between two tokens."""


class Spread:
    """A histogram that is counted into."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...] = BOUNDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds

    def resume(self, seen: Histogram | None) -> None:
        """Go on from what was counted before."""
        if seen is not None and seen.bounds == self.bounds:
            below = (0, *seen.counts[:-1])
            self.counts = [up - low for up, low in zip(seen.counts, below, strict=True)]
            self.sum = seen.sum

    def record(self) -> Histogram | None:
        """Return it with cumulative counts; None when nothing was counted."""
        if not any(self.counts):
            return None
        total = 0
        cumulative = [total := total + count for count in self.counts]
        return Histogram(bounds=self.bounds, counts=tuple(cumulative), sum=self.sum)


class Meter:
    """How requests for one model went."""

    __slots__ = (
        "changed",
        "choices",
        "client_aborts",
        "completion",
        "duration",
        "engine_aborts",
        "errors",
        "fallbacks",
        "first_token",
        "in_flight",
        "inter_token",
        "model",
        "prompt",
        "refusals",
        "replies",
        "retries",
        "waited",
    )

    def __init__(self, model: str) -> None:
        self.model = model
        self.replies: dict[int, int] = {}
        self.choices: dict[str, int] = {}
        self.fallbacks: dict[tuple[str, str], int] = {}
        self.refusals: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        self.waited = Spread()
        self.duration = Spread()
        self.first_token = Spread()
        self.inter_token = Spread(TOKEN_BOUNDS)
        self.prompt = 0
        self.completion = 0
        self.retries = 0
        self.client_aborts = 0
        self.engine_aborts = 0
        self.in_flight = 0
        self.changed = False

    @classmethod
    def resumed(cls, seen: ModelTraffic) -> "Meter":
        """Return a meter that goes on from totals, with nothing in flight."""
        meter = cls(seen.model)
        meter.replies = {reply.code: reply.count for reply in seen.replies}
        meter.refusals = {refusal.code: refusal.count for refusal in seen.refusals}
        meter.errors = {error.code: error.count for error in seen.errors}
        meter.waited.resume(seen.waited)
        meter.choices = {choice.reason: choice.count for choice in seen.choices}
        meter.fallbacks = {(one.to, one.reason): one.count for one in seen.fallbacks}
        meter.duration.resume(seen.duration)
        meter.first_token.resume(seen.first_token)
        meter.inter_token.resume(seen.inter_token)
        meter.prompt = seen.prompt_tokens
        meter.completion = seen.completion_tokens
        meter.retries = seen.retries
        meter.client_aborts = seen.client_aborts
        meter.engine_aborts = seen.engine_aborts
        return meter

    def replied(self, status: int) -> None:
        """Count an answer."""
        self.replies[status] = self.replies.get(status, 0) + 1

    def record(self) -> ModelTraffic:
        """Return the totals."""
        return ModelTraffic(
            model=self.model,
            replies=tuple(
                ReplyCount(code=code, count=count) for code, count in sorted(self.replies.items())
            ),
            duration=self.duration.record(),
            first_token=self.first_token.record(),
            inter_token=self.inter_token.record(),
            prompt_tokens=self.prompt,
            completion_tokens=self.completion,
            retries=self.retries,
            client_aborts=self.client_aborts,
            engine_aborts=self.engine_aborts,
            in_flight=self.in_flight,
            waited=self.waited.record(),
            refusals=_by_code(self.refusals),
            errors=_by_code(self.errors),
            choices=tuple(
                ChoiceCount(reason=reason, count=count)
                for reason, count in sorted(self.choices.items())
            ),
            fallbacks=tuple(
                FallbackCount(to=to, reason=reason, count=count)
                for (to, reason), count in sorted(self.fallbacks.items())
            ),
        )


def _by_code(counts: dict[str, int]) -> tuple[RefusalCount, ...]:
    return tuple(RefusalCount(code=code, count=count) for code, count in sorted(counts.items()))
