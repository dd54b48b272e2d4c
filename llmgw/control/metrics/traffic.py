"""Users' requests, as the gateways counted them. Totals are sums over all gateways' starts."""

from collections.abc import Callable

from llmgw.control.metrics.family import COUNTER, GAUGE, HISTOGRAM, Family, Samples, Value
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.model.gateway import ModelTraffic

NO_REQUEST = "until a gateway reported a request for the model"


def _of(value: Callable[[ModelTraffic], Value]) -> Callable[[Snapshot], Samples]:
    return lambda seen: [((one.model,), value(one)) for one in seen.traffic]


def _requests(seen: Snapshot) -> Samples:
    for one in seen.traffic:
        for reply in one.replies:
            yield (one.model, str(reply.code)), reply.count


def _tokens(seen: Snapshot) -> Samples:
    for one in seen.traffic:
        yield (one.model, "prompt"), one.prompt_tokens
        yield (one.model, "completion"), one.completion_tokens


def _aborts(seen: Snapshot) -> Samples:
    for one in seen.traffic:
        yield (one.model, "client"), one.client_aborts
        yield (one.model, "engine"), one.engine_aborts


FAMILIES = (
    Family(
        "llmgw_requests_total",
        COUNTER,
        ("model", "code"),
        "requests",
        "Requests that were answered, by status.",
        absent=NO_REQUEST,
        read=_requests,
    ),
    Family(
        "llmgw_request_duration_seconds",
        HISTOGRAM,
        ("model",),
        "seconds",
        "Time from a request's head to the end of its reply.",
        absent=NO_REQUEST,
        read=_of(lambda one: one.duration),
    ),
    Family(
        "llmgw_time_to_first_token_seconds",
        HISTOGRAM,
        ("model",),
        "seconds",
        "Time from a request's head to the first token of its reply.",
        absent=NO_REQUEST + ", and for models whose replies were never streamed",
        read=_of(lambda one: one.first_token),
    ),
    Family(
        "llmgw_tokens_total",
        COUNTER,
        ("model", "direction"),
        "tokens",
        "Tokens of prompts and of completions.",
        absent=NO_REQUEST,
        read=_tokens,
    ),
    Family(
        "llmgw_requests_in_flight",
        GAUGE,
        ("model",),
        "requests",
        "Requests that are being answered.",
        absent=NO_REQUEST,
        read=_of(lambda one: one.in_flight),
    ),
    Family(
        "llmgw_request_retries_total",
        COUNTER,
        ("model",),
        "retries",
        "Requests that were sent to another replica before their first byte.",
        absent=NO_REQUEST,
        read=_of(lambda one: one.retries),
    ),
    Family(
        "llmgw_stream_aborts_total",
        COUNTER,
        ("model", "side"),
        "replies",
        "Replies that ended early, by who ended them: client or engine.",
        absent=NO_REQUEST,
        read=_aborts,
    ),
)
