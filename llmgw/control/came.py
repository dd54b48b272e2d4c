"""What gateways counted between two reports, and what follows from it. Pure."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from llmgw.control.percentiles import between, quantile
from llmgw.model.gateway import (
    Histogram,
    ModelTraffic,
    RefusalCount,
    ReplyCount,
    TrafficReport,
)
from llmgw.model.history import Values

SHARE = 0.95
"""Which percentile a series shows."""

Queues = Mapping[str, Mapping[str, int]]
"""How many requests wait, by gateway and model."""

C = TypeVar("C", str, int)


def since(after: ModelTraffic, before: ModelTraffic) -> ModelTraffic:
    """Return what a worker counted of a model between two reports, or since it began anew.

    What is in flight is a level: that of the later report.
    """
    if _began_anew(after, before):
        return after
    return ModelTraffic(
        model=after.model,
        replies=tuple(
            ReplyCount(code=code, count=count)
            for code, count in _more(
                {one.code: one.count for one in after.replies},
                {one.code: one.count for one in before.replies},
            )
        ),
        duration=between(after.duration, before.duration),
        first_token=between(after.first_token, before.first_token),
        inter_token=between(after.inter_token, before.inter_token),
        waited=between(after.waited, before.waited),
        prompt_tokens=after.prompt_tokens - before.prompt_tokens,
        completion_tokens=after.completion_tokens - before.completion_tokens,
        retries=after.retries - before.retries,
        client_aborts=after.client_aborts - before.client_aborts,
        engine_aborts=after.engine_aborts - before.engine_aborts,
        in_flight=after.in_flight,
        refusals=_more_codes(after.refusals, before.refusals),
        errors=_more_codes(after.errors, before.errors),
    )


def ended(came: ModelTraffic) -> int:
    """Return how many requests ended: those of no model have no duration, only a status."""
    timed = came.duration.counts[-1] if came.duration is not None else 0
    return timed or sum(one.count for one in came.replies)


def failed(came: ModelTraffic) -> int:
    """Return how many got a status of 400 or more, or a reply that broke after it began."""
    return sum(one.count for one in came.replies if one.code >= 400) + came.engine_aborts


def levels(reports: Iterable[TrafficReport]) -> dict[str, int]:
    """Return what is in flight by model."""
    found: dict[str, int] = {}
    for report in reports:
        for model in report.models:
            found[model.model] = found.get(model.model, 0) + model.in_flight
    return found


def queued_by_model(queues: Queues) -> dict[str, int]:
    """Return how many requests wait for each model, over all gateways."""
    found: dict[str, int] = {}
    for one in queues.values():
        for model, count in one.items():
            found[model] = found.get(model, 0) + count
    return {model: count for model, count in found.items() if count}


def measured(came: ModelTraffic | None, seconds: float, in_flight: int, queued: int) -> Values:
    """Return the values of `FLOW_MEASURES`."""
    if came is None:
        return 0.0, 0.0, 0.0, 0.0, in_flight, queued, None, None
    return (
        ended(came) / seconds,
        failed(came) / seconds,
        came.prompt_tokens / seconds,
        came.completion_tokens / seconds,
        in_flight,
        queued,
        _share_of(came.first_token),
        _share_of(came.inter_token),
    )


def _share_of(histogram: Histogram | None) -> float | None:
    return None if histogram is None else quantile(histogram, SHARE)


def _began_anew(after: ModelTraffic, before: ModelTraffic) -> bool:
    names = ("prompt_tokens", "completion_tokens", "retries", "client_aborts", "engine_aborts")
    return any(getattr(after, name) < getattr(before, name) for name in names)


def _more(after: Mapping[C, int], before: Mapping[C, int]) -> list[tuple[C, int]]:
    """Return by how much each count rose, those that did."""
    rose = ((name, count - before.get(name, 0)) for name, count in after.items())
    return [(name, count) for name, count in rose if count > 0]


def _more_codes(
    after: tuple[RefusalCount, ...], before: tuple[RefusalCount, ...]
) -> tuple[RefusalCount, ...]:
    rose = _more({one.code: one.count for one in after}, {one.code: one.count for one in before})
    return tuple(RefusalCount(code=code, count=count) for code, count in rose)
