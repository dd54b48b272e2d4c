"""Gateways' traffic: the newest report of each worker, and sums that never fall."""

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from llmgw.model.gateway import (
    ChoiceCount,
    FallbackCount,
    Histogram,
    ModelTraffic,
    RefusalCount,
    ReplyCount,
    TrafficReport,
)
from llmgw.store.interface import StoredTraffic

Worker = tuple[str, int]
"""Boot and worker."""

MOST_WORKERS = 256
"""Workers of one gateway whose reports are kept apart; of more, the oldest are added up."""
MOST_MODELS = 4096
"""Models of one gateway whose past is kept."""

_TOTALS = ("prompt_tokens", "completion_tokens", "retries", "client_aborts", "engine_aborts")


class Traffic:
    """Cumulative traffic by model, summed over gateways, their starts and their workers.

    What is shown lies in the store: were it more, a control plane that was killed would come back
    and show less. `unwritten` and `written` carry it there; `load` brings it back. How many
    requests are in flight is a level, and of this moment.

    Memory: one report a live worker, one base a gateway and model, and the sums that are shown.
    """

    def __init__(self) -> None:
        self._gateways: dict[str, Counted] = {}
        self._changed: set[str] = set()
        self._shown: dict[str, dict[str, ModelTraffic]] = {}
        """By gateway and model, as far as the store has it."""

    def load(self, stored: Iterable[StoredTraffic]) -> None:
        """Go on from what an earlier control plane stored."""
        for one in stored:
            self._gateways[one.gateway] = Counted.of(one)
            self._shown[one.gateway] = sums(one)

    def take(self, report: TrafficReport) -> None:
        """Apply a worker's report."""
        self._gateways.setdefault(report.gateway, Counted()).take(report)
        self._changed.add(report.gateway)

    def new_boot(self, gateway: str, boot: str) -> None:
        """Note that the gateway's earlier boots are over."""
        if gateway in self._gateways:
            self._gateways[gateway].new_boot(boot)
            self._changed.add(gateway)

    def idle(self, gateway: str) -> None:
        """Note that a gateway is gone: nothing is in flight there as far as anybody knows."""
        if gateway in self._gateways:
            self._gateways[gateway].idle()

    def reports(self) -> tuple[TrafficReport, ...]:
        """Return the newest report of each worker."""
        return tuple(report for _, one in sorted(self._gateways.items()) for report in one.newest())

    def by_model(self) -> dict[str, ModelTraffic]:
        """Return the sums by model, as far as the store has them."""
        total: dict[str, ModelTraffic] = {}
        for _, models in sorted(self._shown.items()):
            for name, model in models.items():
                total[name] = added(total[name], model) if name in total else model
        flights = self._in_flight()
        return {
            name: msgspec.structs.replace(model, in_flight=flights.get(name, 0))
            for name, model in total.items()
        }

    def unwritten(self) -> tuple[StoredTraffic, ...]:
        """Return all that was counted by gateways of which the store has not everything."""
        return tuple(self._gateways[gateway].record(gateway) for gateway in sorted(self._changed))

    def written(self, counted: Iterable[StoredTraffic]) -> None:
        """Note what lies in the store now: from here on it is shown."""
        for one in counted:
            self._shown[one.gateway] = sums(one)
            if self._gateways[one.gateway].record(one.gateway) == one:
                self._changed.discard(one.gateway)

    def _in_flight(self) -> dict[str, int]:
        flights: defaultdict[str, int] = defaultdict(int)
        for report in self.reports():
            for model in report.models:
                flights[model.model] += model.in_flight
        return flights


class Counted:
    """What one gateway counted.

    A worker counts from zero when it starts. When a worker's totals are lower than they were, or
    the gateway comes with another boot, what was counted before is folded into a base, so that a
    sum over all never falls.
    """

    def __init__(self) -> None:
        self._reports: dict[Worker, TrafficReport] = {}
        self._finished: dict[str, ModelTraffic] = {}

    @classmethod
    def of(cls, stored: StoredTraffic) -> "Counted":
        """Go on from what was stored; nothing of it is in flight as far as anybody knows."""
        counted = cls()
        counted._finished = {model.model: model for model in stored.finished}
        counted._reports = {(one.boot, one.worker): one for one in stored.reports}
        counted.idle()
        return counted

    def take(self, report: TrafficReport) -> None:
        """Apply a worker's report."""
        worker = (report.boot, report.worker)
        known = self._reports.get(worker)
        if known is not None and _fell(known, report):
            self._fold(known)
        self._reports[worker] = report
        if len(self._reports) > MOST_WORKERS:
            self._fold(self._reports.pop(next(iter(self._reports))))

    def new_boot(self, boot: str) -> None:
        """Fold what the earlier boots counted."""
        for worker in [worker for worker in self._reports if worker[0] != boot]:
            self._fold(self._reports.pop(worker))

    def idle(self) -> None:
        """Note that nothing is in flight any more."""
        for worker, report in self._reports.items():
            models = tuple(_still(model) for model in report.models)
            self._reports[worker] = msgspec.structs.replace(report, models=models)

    def newest(self) -> tuple[TrafficReport, ...]:
        """Return the newest report of each worker."""
        return tuple(self._reports[worker] for worker in sorted(self._reports))

    def record(self, gateway: str) -> StoredTraffic:
        """Return all of it as the store keeps it."""
        finished = tuple(model for _, model in sorted(self._finished.items()))
        return StoredTraffic(gateway=gateway, finished=finished, reports=self.newest())

    def _fold(self, report: TrafficReport) -> None:
        for model in report.models:
            past, known = _still(model), self._finished.get(model.model)
            if known is None and len(self._finished) >= MOST_MODELS:
                continue
            self._finished[model.model] = past if known is None else added(known, past)


def sums(counted: StoredTraffic) -> dict[str, ModelTraffic]:
    """Return what a gateway counted by model, over all its boots and workers."""
    total = {model.model: model for model in counted.finished}
    for report in counted.reports:
        for model in report.models:
            known = total.get(model.model)
            total[model.model] = model if known is None else added(known, model)
    return total


def added(one: ModelTraffic, other: ModelTraffic) -> ModelTraffic:
    """Return the sum of two workers' traffic of one model."""
    return ModelTraffic(
        model=one.model,
        replies=_added_replies((*one.replies, *other.replies)),
        duration=_added_histograms(one.duration, other.duration),
        first_token=_added_histograms(one.first_token, other.first_token),
        inter_token=_added_histograms(one.inter_token, other.inter_token),
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
        retries=one.retries + other.retries,
        client_aborts=one.client_aborts + other.client_aborts,
        engine_aborts=one.engine_aborts + other.engine_aborts,
        in_flight=one.in_flight + other.in_flight,
        waited=_added_histograms(one.waited, other.waited),
        refusals=_added_refusals((*one.refusals, *other.refusals)),
        errors=_added_refusals((*one.errors, *other.errors)),
        choices=_added_choices((*one.choices, *other.choices)),
        fallbacks=_added_fallbacks((*one.fallbacks, *other.fallbacks)),
    )


def _added_replies(replies: Iterable[ReplyCount]) -> tuple[ReplyCount, ...]:
    counts: dict[int, int] = {}
    for reply in replies:
        counts[reply.code] = counts.get(reply.code, 0) + reply.count
    return tuple(ReplyCount(code=code, count=counts[code]) for code in sorted(counts))


def _added_refusals(refusals: Iterable[RefusalCount]) -> tuple[RefusalCount, ...]:
    counts: dict[str, int] = {}
    for refusal in refusals:
        counts[refusal.code] = counts.get(refusal.code, 0) + refusal.count
    return tuple(RefusalCount(code=code, count=counts[code]) for code in sorted(counts))


def _added_choices(choices: Iterable[ChoiceCount]) -> tuple[ChoiceCount, ...]:
    counts: dict[str, int] = {}
    for choice in choices:
        counts[choice.reason] = counts.get(choice.reason, 0) + choice.count
    return tuple(ChoiceCount(reason=reason, count=counts[reason]) for reason in sorted(counts))


def _added_fallbacks(fallbacks: Iterable[FallbackCount]) -> tuple[FallbackCount, ...]:
    counts: dict[tuple[str, str], int] = {}
    for one in fallbacks:
        counts[one.to, one.reason] = counts.get((one.to, one.reason), 0) + one.count
    return tuple(
        FallbackCount(to=to, reason=reason, count=count)
        for (to, reason), count in sorted(counts.items())
    )


def _added_histograms(one: Histogram | None, other: Histogram | None) -> Histogram | None:
    """Return the sum; of two with other bounds (two versions of gateways) the bounds of both.

    At a bound that only one of them has, the other counts what it has at its next lower bound:
    never more than there was.
    """
    if one is None or other is None:
        return one or other
    bounds = tuple(sorted({*one.bounds, *other.bounds}))
    counts = [_count_at(one, bound) + _count_at(other, bound) for bound in bounds]
    total = _total(one) + _total(other)
    return Histogram(bounds=bounds, counts=(*counts, total), sum=one.sum + other.sum)


def _count_at(histogram: Histogram, bound: float) -> int:
    below = [
        count for at, count in zip(histogram.bounds, histogram.counts, strict=False) if at <= bound
    ]
    return below[-1] if below else 0


def _total(histogram: Histogram) -> int:
    return histogram.counts[-1] if histogram.counts else 0


def _still(model: ModelTraffic) -> ModelTraffic:
    return msgspec.structs.replace(model, in_flight=0)


def _fell(before: TrafficReport, after: TrafficReport) -> bool:
    now = {model.model: model for model in after.models}
    return any(_lower(now.get(model.model), model) for model in before.models)


def _lower(now: ModelTraffic | None, before: ModelTraffic) -> bool:
    if now is None:
        return True
    if any(getattr(now, name) < getattr(before, name) for name in _TOTALS):
        return True
    counts = {reply.code: reply.count for reply in now.replies}
    return any(counts.get(reply.code, 0) < reply.count for reply in before.replies)
