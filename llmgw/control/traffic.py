"""Gateways' traffic: the newest report of each worker, and sums that never fall."""

from collections.abc import Iterable

from llmgw.model.gateway import Histogram, ModelTraffic, ReplyCount, TrafficReport

Worker = tuple[str, str, int]
"""Gateway, boot, worker."""

_TOTALS = ("prompt_tokens", "completion_tokens", "retries", "client_aborts", "engine_aborts")


class Traffic:
    """Cumulative traffic by gateway and model.

    A worker counts from zero when it starts. When a worker's totals are lower than they were, or a
    gateway comes with another boot, what was counted before is folded into a base, so that a sum
    over all never falls. Memory: one report a live worker, one base a gateway and model.
    """

    def __init__(self) -> None:
        self._reports: dict[Worker, TrafficReport] = {}
        self._folded: dict[tuple[str, str], ModelTraffic] = {}

    def take(self, report: TrafficReport) -> None:
        """Apply a worker's report."""
        worker = (report.gateway, report.boot, report.worker)
        known = self._reports.get(worker)
        if known is not None and _fell(known, report):
            self._fold(known)
        self._reports[worker] = report

    def new_boot(self, gateway: str, boot: str) -> None:
        """Fold what the gateway's earlier boots counted."""
        for worker in [w for w in self._reports if w[0] == gateway and w[1] != boot]:
            self._fold(self._reports.pop(worker))

    def idle(self, gateway: str) -> None:
        """Note that a gateway is gone: nothing is in flight there as far as anybody knows."""
        for worker, report in tuple(self._reports.items()):
            if worker[0] == gateway:
                models = tuple(_still(model) for model in report.models)
                self._reports[worker] = TrafficReport(
                    gateway=report.gateway,
                    boot=report.boot,
                    worker=report.worker,
                    models=models,
                )

    def reports(self) -> tuple[TrafficReport, ...]:
        """Return the newest report of each worker."""
        return tuple(self._reports[worker] for worker in sorted(self._reports))

    def by_gateway(self) -> dict[tuple[str, str], ModelTraffic]:
        """Return the sums by gateway and model, over all workers and boots."""
        sums = dict(self._folded)
        for report in self.reports():
            for model in report.models:
                which = (report.gateway, model.model)
                known = sums.get(which)
                sums[which] = model if known is None else added(known, model)
        return sums

    def by_model(self) -> dict[str, ModelTraffic]:
        """Return the sums by model, over all gateways."""
        sums: dict[str, ModelTraffic] = {}
        for (_, model), traffic in sorted(self.by_gateway().items()):
            known = sums.get(model)
            sums[model] = traffic if known is None else added(known, traffic)
        return sums

    def _fold(self, report: TrafficReport) -> None:
        for model in report.models:
            which = (report.gateway, model.model)
            known = self._folded.get(which)
            past = _still(model)
            self._folded[which] = past if known is None else added(known, past)


def added(one: ModelTraffic, other: ModelTraffic) -> ModelTraffic:
    """Return the sum of two workers' traffic of one model."""
    return ModelTraffic(
        model=one.model,
        replies=_added_replies((*one.replies, *other.replies)),
        duration=_added_histograms(one.duration, other.duration),
        first_token=_added_histograms(one.first_token, other.first_token),
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
        retries=one.retries + other.retries,
        client_aborts=one.client_aborts + other.client_aborts,
        engine_aborts=one.engine_aborts + other.engine_aborts,
        in_flight=one.in_flight + other.in_flight,
    )


def _added_replies(replies: Iterable[ReplyCount]) -> tuple[ReplyCount, ...]:
    counts: dict[int, int] = {}
    for reply in replies:
        counts[reply.code] = counts.get(reply.code, 0) + reply.count
    return tuple(ReplyCount(code=code, count=counts[code]) for code in sorted(counts))


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
    return added(
        ModelTraffic(model=model.model),
        ModelTraffic(
            model=model.model,
            replies=model.replies,
            duration=model.duration,
            first_token=model.first_token,
            prompt_tokens=model.prompt_tokens,
            completion_tokens=model.completion_tokens,
            retries=model.retries,
            client_aborts=model.client_aborts,
            engine_aborts=model.engine_aborts,
        ),
    )


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
