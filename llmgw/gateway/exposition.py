"""A gateway's own `/metrics`, where no control plane shows them: text, by worker. Pure."""

from collections.abc import Callable, Iterable, Mapping

from llmgw.model.gateway import Histogram, ModelTraffic

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LABEL_MOST = 256

Seen = Mapping[int, Iterable[ModelTraffic]]
"""Traffic by worker."""
Sample = tuple[str, int | float | Histogram | None]
"""Labels, value."""


def page(
    traffic: Seen,
    endpoints: Iterable[tuple[str, str, bool, int]],
    waiting: Mapping[int, Mapping[str, int]],
    over: int,
) -> str:
    """Return the page.

    Args:
        traffic: what each worker counted.
        endpoints: model, id, whether it answers, requests in flight there.
        waiting: requests that wait now, by worker and model.
        over: keys of which a request was refused for a limit within the last minute.
    """
    text = ""
    for name, kind, words, read in _FAMILIES:
        samples = [
            (f'model="{label(one.model)}",worker="{worker}"{more}', value)
            for worker, models in sorted(traffic.items())
            for one in models
            for more, value in read(one)
        ]
        text += _family(name, kind, words, samples)
    text += _levels(traffic, waiting, over)
    known = [
        (f'model="{label(model)}",endpoint="{label(name)}"', up, count)
        for model, name, up, count in endpoints
    ]
    text += _family(
        "llmgw_endpoint_up",
        "gauge",
        "1: it answers the gateway's checks.",
        [(labels, int(up)) for labels, up, _ in known],
    )
    return text + _family(
        "llmgw_endpoint_requests_in_flight",
        "gauge",
        "Requests that are there now.",
        [(labels, count) for labels, _, count in known],
    )


def _levels(traffic: Seen, waiting: Mapping[int, Mapping[str, int]], over: int) -> str:
    """Return the families of what is so now; of a model that was asked for, that nothing waits."""
    queued = [
        (f'model="{label(model)}",worker="{worker}"', waiting.get(worker, {}).get(model, 0))
        for worker, models in sorted(traffic.items())
        for model in sorted({one.model for one in models} | waiting.get(worker, {}).keys())
        if model
    ]
    return _family(
        "llmgw_requests_queued", "gauge", "Requests that wait for a model or for room.", queued
    ) + _family(
        "llmgw_keys_over_quota",
        "gauge",
        "Keys of which a request was refused for a limit within the last minute.",
        [("", over)],
    )


def label(value: str) -> str:
    """Return a label's value as it stands between its quotes."""
    plain = "".join(one if one.isprintable() else "?" for one in value[:LABEL_MOST])
    plain = plain.encode("utf-8", "replace").decode()
    return plain.replace("\\", "\\\\").replace('"', '\\"')


def _family(name: str, kind: str, words: str, samples: Iterable[Sample]) -> str:
    lines = "".join(_lines(name, labels, value) for labels, value in samples)
    return f"# HELP {name} {words}\n# TYPE {name} {kind}\n{lines}" if lines else ""


def _lines(name: str, labels: str, value: int | float | Histogram | None) -> str:
    if value is None:
        return ""
    if not isinstance(value, Histogram):
        return f"{name}{{{labels}}} {value}\n" if labels else f"{name} {value}\n"
    bounds = (*map(repr, value.bounds), "+Inf")
    buckets = "".join(
        f'{name}_bucket{{{labels},le="{bound}"}} {count}\n'
        for bound, count in zip(bounds, value.counts, strict=True)
    )
    total = value.counts[-1]
    return f"{buckets}{name}_sum{{{labels}}} {value.sum!r}\n{name}_count{{{labels}}} {total}\n"


def _one(value: int | float | Histogram | None) -> list[Sample]:
    return [("", value)]


Read = Callable[[ModelTraffic], list[Sample]]
_FAMILIES: tuple[tuple[str, str, str, Read], ...] = (
    (
        "llmgw_requests_total",
        "counter",
        "Requests that were answered, by status.",
        lambda one: [(f',code="{reply.code}"', reply.count) for reply in one.replies],
    ),
    (
        "llmgw_request_duration_seconds",
        "histogram",
        "Time from a request's head to the end of its reply.",
        lambda one: _one(one.duration),
    ),
    (
        "llmgw_time_to_first_token_seconds",
        "histogram",
        "Time from a request's head to the first token of its reply.",
        lambda one: _one(one.first_token),
    ),
    (
        "llmgw_inter_token_seconds",
        "histogram",
        "Mean time between two tokens of a streamed reply; one observation a reply.",
        lambda one: _one(one.inter_token),
    ),
    (
        "llmgw_tokens_total",
        "counter",
        "Tokens of prompts and of completions.",
        lambda one: [
            (',direction="prompt"', one.prompt_tokens),
            (',direction="completion"', one.completion_tokens),
        ],
    ),
    (
        "llmgw_requests_in_flight",
        "gauge",
        "Requests that are being answered.",
        lambda one: _one(one.in_flight),
    ),
    (
        "llmgw_request_retries_total",
        "counter",
        "Requests that were sent to another replica before their first byte.",
        lambda one: _one(one.retries),
    ),
    (
        "llmgw_stream_aborts_total",
        "counter",
        "Replies that ended early, by who ended them: client or engine.",
        lambda one: [(',side="client"', one.client_aborts), (',side="engine"', one.engine_aborts)],
    ),
    (
        "llmgw_refusals_total",
        "counter",
        "Requests that were refused for a key's limits or a full queue, by the code.",
        lambda one: [(f',code="{label(two.code)}"', two.count) for two in one.refusals],
    ),
    (
        "llmgw_request_errors_total",
        "counter",
        "Requests that ended with another error of the gateway's, by its code.",
        lambda one: [(f',code="{label(two.code)}"', two.count) for two in one.errors],
    ),
    (
        "llmgw_queue_wait_seconds",
        "histogram",
        "Time that requests waited for room, and went on.",
        lambda one: _one(one.waited),
    ),
    (
        "llmgw_prefix_decisions_total",
        "counter",
        "Choices of a replica, by reason.",
        lambda one: [(f',reason="{label(two.reason)}"', two.count) for two in one.choices],
    ),
    (
        "llmgw_fallbacks_total",
        "counter",
        "Requests that went to a fall-back.",
        lambda one: [
            (f',to="{label(two.to)}",reason="{label(two.reason)}"', two.count)
            for two in one.fallbacks
        ],
    ),
)
