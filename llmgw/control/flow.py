"""How requests go at this moment, put together for people. Pure."""

from collections.abc import Iterable, Mapping

from llmgw.control.came import Queues, ended, failed, levels
from llmgw.control.percentiles import percentiles
from llmgw.control.rates import Deltas
from llmgw.control.traffic import added
from llmgw.model.flow import Figures, Flow, GatewayFigures, NamedFigures
from llmgw.model.gateway import Gateway, ModelTraffic, RefusalCount, TrafficReport

LEAST = 1.0
"""Seconds that have to be measured before anything is called a rate."""


def flow(
    deltas: Deltas,
    window: float,
    reports: Iterable[TrafficReport],
    queues: Queues,
    gateways: Iterable[Gateway],
    *,
    at: float,
    oldest_waiting: float | None = None,
) -> Flow:
    """Return how requests go.

    Args:
        deltas: what came in the window, by gateway and model.
        window: seconds.
        reports: the newest of each worker of the gateways that are connected.
        queues: how many requests wait.
        gateways: all that are known.
        at: now, in seconds since the epoch.
        oldest_waiting: seconds since the oldest request came that waits.
    """
    newest = tuple(reports)
    flights = {one.gateway: levels(r for r in newest if r.gateway == one.gateway) for one in newest}
    names = {model for _, model in deltas}
    names |= {model for one in (*flights.values(), *queues.values()) for model in one if one[model]}
    return Flow(
        at=at,
        window=window,
        oldest_waiting=oldest_waiting,
        whole=_figures(deltas.values(), window, _all(flights), _all(queues)),
        models=tuple(
            _named(
                name,
                _figures(
                    (came for (_, model), came in deltas.items() if model == name),
                    window,
                    sum(one.get(name, 0) for one in flights.values()),
                    sum(one.get(name, 0) for one in queues.values()),
                ),
            )
            for name in sorted(names, key=lambda name: (not name, name))
        ),
        gateways=tuple(
            GatewayFigures(
                name=one.id,
                connected=one.connected,
                figures=_figures(
                    (came for (gateway, _), came in deltas.items() if gateway == one.id),
                    window,
                    sum(flights.get(one.id, {}).values()),
                    sum(queues.get(one.id, {}).values()),
                )
                if one.connected
                else None,
            )
            for one in sorted(gateways, key=lambda gateway: gateway.id)
        ),
    )


def _all(levels_: Mapping[str, Mapping[str, int]]) -> int:
    return sum(sum(one.values()) for one in levels_.values())


def _named(name: str, figures: Figures) -> NamedFigures:
    fields = {field: getattr(figures, field) for field in Figures.__struct_fields__}
    return NamedFigures(name=name, **fields)


def _figures(came: Iterable[ModelTraffic], window: float, in_flight: int, queued: int) -> Figures:
    parts = tuple(came)
    total = ModelTraffic(model="")
    for one in parts:
        total = added(total, one)
    seconds = window if window >= LEAST else None
    return Figures(
        # Those of no model have no duration: each is counted by itself.
        requests=sum(ended(one) for one in parts),
        requests_per_second=_rate(sum(ended(one) for one in parts), seconds),
        errors_per_second=_rate(failed(total), seconds),
        prompt_tokens_per_second=_rate(total.prompt_tokens, seconds),
        completion_tokens_per_second=_rate(total.completion_tokens, seconds),
        in_flight=in_flight,
        queued=queued,
        first_token=percentiles(total.first_token),
        inter_token=percentiles(total.inter_token),
        duration=percentiles(total.duration),
        waited=percentiles(total.waited),
        statuses=tuple(one for one in total.replies if one.code >= 400),
        codes=_codes((*total.refusals, *total.errors)),
        retries=total.retries,
        client_aborts=total.client_aborts,
        engine_aborts=total.engine_aborts,
    )


def _rate(count: int, seconds: float | None) -> float | None:
    return None if seconds is None else count / seconds


def _codes(counts: Iterable[RefusalCount]) -> tuple[RefusalCount, ...]:
    sums: dict[str, int] = {}
    for one in counts:
        sums[one.code] = sums.get(one.code, 0) + one.count
    ranked = sorted(sums.items(), key=lambda one: (-one[1], one[0]))
    return tuple(RefusalCount(code=code, count=count) for code, count in ranked)
