"""How requests go: rates, waits and errors of a moment, and the series of the last hour."""

from llmgw.model.gateway import RefusalCount, ReplyCount
from llmgw.model.history import Measure, Series
from llmgw.model.record import Record

PER_SECOND = "per_second"
SECONDS = "seconds"
COUNT = "count"

FLOW_MEASURES = (
    Measure(name="requests", unit=PER_SECOND),
    Measure(name="errors", unit=PER_SECOND),
    Measure(name="prompt_tokens", unit=PER_SECOND),
    Measure(name="completion_tokens", unit=PER_SECOND),
    Measure(name="in_flight", unit=COUNT),
    Measure(name="queued", unit=COUNT),
    Measure(name="first_token", unit=SECONDS),
    Measure(name="inter_token", unit=SECONDS),
)
"""Of a step: rates over it, levels at its end, and of the two times the 95th percentile."""


class Percentiles(Record, frozen=True, kw_only=True):
    """Of durations in seconds; one that is `bound` is that much or more."""

    count: int
    """How many durations they are made of."""
    p50: float | None
    p95: float | None
    p99: float | None
    bound: float | None
    """The highest bound of what was counted: nobody knows how much more it was."""


class Figures(Record, frozen=True, kw_only=True):
    """How requests went in a window of time. Rates are None while nothing was measured yet."""

    requests: int
    """Those that ended."""
    requests_per_second: float | None
    errors_per_second: float | None
    """Answers with a status of 400 or more, and replies that broke after they began."""
    prompt_tokens_per_second: float | None
    completion_tokens_per_second: float | None
    in_flight: int
    """Now; those that wait are among them."""
    queued: int
    """Now: those that wait for a model or for room."""
    first_token: Percentiles | None
    inter_token: Percentiles | None
    """Of each streamed reply the mean time between two of its tokens."""
    duration: Percentiles | None
    waited: Percentiles | None
    """Of those that waited and went on."""
    statuses: tuple[ReplyCount, ...] = ()
    """Answers with a status of 400 or more."""
    codes: tuple[RefusalCount, ...] = ()
    """Errors of the gateway's own by their code, most first."""
    retries: int = 0
    client_aborts: int = 0
    engine_aborts: int = 0


class NamedFigures(Figures, frozen=True, kw_only=True):
    """The same of one model or one gateway."""

    name: str
    """Empty: requests that were answered before a model was known."""


class GatewayFigures(Record, frozen=True, kw_only=True):
    """The same of one gateway; `figures` is None while it is away."""

    name: str
    connected: bool
    figures: Figures | None


class Flow(Record, frozen=True, kw_only=True):
    """How requests go through all gateways that are connected."""

    at: float
    """Seconds since the epoch."""
    window: float
    """Seconds over which it is: less than was asked for while not more was measured."""
    whole: Figures
    models: tuple[NamedFigures, ...] = ()
    """By name; what is of none comes last."""
    gateways: tuple[GatewayFigures, ...] = ()
    """By name."""
    oldest_waiting: float | None = None
    """How long ago the oldest of those came that wait; None: none waits, or nobody says."""


class FlowHistory(Record, frozen=True, kw_only=True):
    """How requests went in the last hour. Seconds."""

    step: float
    until: float
    """When the last value was taken, in seconds since the epoch."""
    series: tuple[Series, ...]
    model: str | None = None
    """None: of all together."""
