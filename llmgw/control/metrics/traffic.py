"""Users' requests, as the gateways counted them. Totals are sums over all gateways' starts.

A total is told once it lies in the store: what a scrape has shown is there after any crash, and
no counter falls.
"""

from collections.abc import Callable

from llmgw.control.metrics.family import COUNTER, HISTOGRAM, FleetFamily, Samples
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.control.metrics.tally import Tally
from llmgw.control.metrics.text import Value, shown
from llmgw.model.gateway import ModelTraffic

NO_REQUEST = "until a gateway reported a request for the model"


def _of(value: Callable[[ModelTraffic], Value]) -> Callable[[Snapshot, Tally], Samples]:
    return lambda seen, _: [(f'model="{shown(one.model)}"', value(one)) for one in seen.traffic]


def _requests(seen: Snapshot, tally: Tally) -> Samples:
    for one in seen.traffic:
        for reply in one.replies:
            yield f'model="{shown(one.model)}",code="{reply.code}"', reply.count


def _tokens(seen: Snapshot, tally: Tally) -> Samples:
    for one in seen.traffic:
        yield f'model="{shown(one.model)}",direction="prompt"', one.prompt_tokens
        yield f'model="{shown(one.model)}",direction="completion"', one.completion_tokens


def _aborts(seen: Snapshot, tally: Tally) -> Samples:
    for one in seen.traffic:
        yield f'model="{shown(one.model)}",side="client"', one.client_aborts
        yield f'model="{shown(one.model)}",side="engine"', one.engine_aborts


def _choices(seen: Snapshot, tally: Tally) -> Samples:
    for one in seen.traffic:
        for choice in one.choices:
            yield f'model="{shown(one.model)}",reason="{shown(choice.reason)}"', choice.count


def _fallbacks(seen: Snapshot, tally: Tally) -> Samples:
    for one in seen.traffic:
        for other in one.fallbacks:
            labels = f'model="{shown(one.model)}",to="{shown(other.to)}"'
            yield f'{labels},reason="{shown(other.reason)}"', other.count


def _refusals(seen: Snapshot, tally: Tally) -> Samples:
    for one in seen.traffic:
        for refusal in one.refusals:
            yield f'model="{shown(one.model)}",code="{shown(refusal.code)}"', refusal.count


def _errors(seen: Snapshot, tally: Tally) -> Samples:
    for one in seen.traffic:
        for error in one.errors:
            yield f'model="{shown(one.model)}",code="{shown(error.code)}"', error.count


def _queued(seen: Snapshot, tally: Tally) -> Samples:
    for one in seen.traffic:
        yield f'model="{shown(one.model)}"', seen.queued.get(one.model, 0)


def _over(seen: Snapshot, tally: Tally) -> Samples:
    yield "", seen.keys_over_quota


FAMILIES = (
    FleetFamily(
        name="llmgw_requests_total",
        kind=COUNTER,
        labels=("model", "code"),
        unit="requests",
        help="Requests that were answered, by status.",
        absent=NO_REQUEST,
        read=_requests,
    ),
    FleetFamily(
        name="llmgw_request_duration_seconds",
        kind=HISTOGRAM,
        labels=("model",),
        unit="seconds",
        help="Time from a request's head to the end of its reply.",
        absent=NO_REQUEST,
        read=_of(lambda one: one.duration),
    ),
    FleetFamily(
        name="llmgw_time_to_first_token_seconds",
        kind=HISTOGRAM,
        labels=("model",),
        unit="seconds",
        help="Time from a request's head to the first token of its reply.",
        absent=NO_REQUEST + ", and for models whose replies were never streamed",
        read=_of(lambda one: one.first_token),
    ),
    FleetFamily(
        name="llmgw_inter_token_seconds",
        kind=HISTOGRAM,
        labels=("model",),
        unit="seconds",
        help="Mean time between two tokens of a streamed reply; one observation a reply.",
        absent=NO_REQUEST + ", and for models whose replies were never streamed",
        read=_of(lambda one: one.inter_token),
    ),
    FleetFamily(
        name="llmgw_tokens_total",
        kind=COUNTER,
        labels=("model", "direction"),
        unit="tokens",
        help="Tokens of prompts and of completions.",
        absent=NO_REQUEST,
        read=_tokens,
    ),
    FleetFamily(
        name="llmgw_requests_in_flight",
        labels=("model",),
        unit="requests",
        help="Requests that are being answered.",
        absent=NO_REQUEST,
        read=_of(lambda one: one.in_flight),
    ),
    FleetFamily(
        name="llmgw_request_retries_total",
        kind=COUNTER,
        labels=("model",),
        unit="retries",
        help="Requests that were sent to another replica before their first byte.",
        absent=NO_REQUEST,
        read=_of(lambda one: one.retries),
    ),
    FleetFamily(
        name="llmgw_stream_aborts_total",
        kind=COUNTER,
        labels=("model", "side"),
        unit="replies",
        help="Replies that ended early, by who ended them: client or engine.",
        absent=NO_REQUEST,
        read=_aborts,
    ),
    FleetFamily(
        name="llmgw_prefix_decisions_total",
        kind=COUNTER,
        labels=("model", "reason"),
        unit="choices",
        help="Choices of a replica: only, session, prefix, busy, unknown or short.",
        absent=NO_REQUEST,
        read=_choices,
    ),
    FleetFamily(
        name="llmgw_refusals_total",
        kind=COUNTER,
        labels=("model", "code"),
        unit="requests",
        help="Requests that a gateway refused for a key's limits or a full queue, by its code; "
        "those for limits under no model.",
        absent=NO_REQUEST,
        read=_refusals,
    ),
    FleetFamily(
        name="llmgw_request_errors_total",
        kind=COUNTER,
        labels=("model", "code"),
        unit="requests",
        help="Requests that ended with another error of a gateway's, by its code; those that came "
        "to no model under none.",
        absent=NO_REQUEST,
        read=_errors,
    ),
    FleetFamily(
        name="llmgw_queue_wait_seconds",
        kind=HISTOGRAM,
        labels=("model",),
        unit="seconds",
        help="Time that requests waited for room, or for their model to be started, and went on.",
        absent=NO_REQUEST + ", and for models whose requests never waited",
        read=_of(lambda one: one.waited),
    ),
    FleetFamily(
        name="llmgw_requests_queued",
        labels=("model",),
        unit="requests",
        help="Requests that wait at gateways.",
        absent=NO_REQUEST,
        read=_queued,
    ),
    FleetFamily(
        name="llmgw_keys_over_quota",
        unit="keys",
        help="Keys of which a request was refused for a limit within the last minute.",
        absent="on a standby",
        read=_over,
    ),
    FleetFamily(
        name="llmgw_fallbacks_total",
        kind=COUNTER,
        labels=("model", "to", "reason"),
        unit="requests",
        help="Requests that went to a fall-back: no_replica, unreachable or full.",
        absent=NO_REQUEST,
        read=_fallbacks,
    ),
)
