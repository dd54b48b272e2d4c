"""How requests go: what gateways counted in the last minutes, and the series of the last hour.

Gateways tell totals that never fall. Each `STEP` what came since the last one is kept by gateway
and model for `DETAIL` steps, and of each model a few figures for an hour. All of it is in memory,
bounded, and gone with the process.
"""

from array import array
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan, nan

from llmgw.control.came import Queues, levels, measured, queued_by_model, since
from llmgw.control.traffic import added
from llmgw.model.flow import FLOW_MEASURES, FlowHistory
from llmgw.model.gateway import ModelTraffic, TrafficReport
from llmgw.model.history import HOUR, Series, Values

STEP = 10.0
"""Seconds."""
DETAIL = 30
"""Steps of which everything is kept: the longest window is five minutes."""
LENGTH = int(HOUR * 60 / STEP)
MODELS_MOST = 64
"""Models of which an hour is kept; of more, those that nothing was asked of for longest go."""
PAIRS_MOST = 1024
"""Gateways and models of which a step keeps everything; of more, nothing is told apart."""
Pair = tuple[str, str]
"""Gateway and model."""
Deltas = dict[Pair, ModelTraffic]


@dataclass(slots=True)
class _Step:
    """What came in one step. Monotonic seconds."""

    begun: float
    deltas: Deltas
    heard: bool
    """Any gateway told what it counted both when it began and when it ended."""


@dataclass(slots=True)
class _Hour:
    """The series of one model, one ring a measure."""

    last: int
    """The tick at which anything went on."""
    rings: tuple["array[float]", ...]


class Rates:
    """What came since when.

    A worker's first report is where its counting begins here, unless its gateway was heard before
    in the same boot: then it begins at zero. What a gateway counts while it is away is left out: it
    would come all at once.

    Args:
        length: steps of which series are kept.
    """

    def __init__(self, length: int = LENGTH) -> None:
        self._length = length
        self._workers: dict[tuple[str, int], TrafficReport] = {}
        """The reports of the last step, by gateway and worker."""
        self._boots: dict[str, str] = {}
        self._steps: deque[_Step] = deque(maxlen=DETAIL)
        self._begun: float | None = None
        self._hours: dict[str | None, _Hour] = {}
        self._tick = 0
        self._until = 0.0

    def forget(self) -> None:
        """Know nothing: another leads, or this one begins to."""
        self._workers.clear()
        self._boots.clear()
        self._steps.clear()
        self._hours.clear()
        self._begun = None

    def step(
        self, reports: Iterable[TrafficReport], queues: Queues, *, monotonic: float, at: float
    ) -> None:
        """End a step.

        Args:
            reports: the newest of each worker of the gateways that are connected.
            queues: how many requests wait.
            monotonic: now.
            at: now, in seconds since the epoch.
        """
        newest = tuple(reports)
        deltas, heard = self._since_last(newest), self._is_known(newest)
        seconds = None if self._begun is None else monotonic - self._begun
        if self._begun is not None:
            self._steps.append(_Step(self._begun, deltas, heard))
        self._begun, self._until = monotonic, at
        self._workers = {(one.gateway, one.worker): one for one in newest}
        self._boots = {one.gateway: one.boot for one in newest}
        self._tick += 1
        if seconds and heard:
            self._keep_hour(newest, queues, deltas, seconds)
        elif seconds:
            self._keep_gap()

    def window(
        self, reports: Iterable[TrafficReport], seconds: float, *, monotonic: float
    ) -> tuple[float, Deltas]:
        """Return what came in the last seconds, and over how many that really is.

        Args:
            reports: as for `step`, of now.
            seconds: how far back; whole steps are taken, and what came since the last one.
            monotonic: now.

        Returns:
            No time at all before any of the gateways was heard at the end of a step: what they
            did until then is not known, and not nothing. For the same reason nothing counts that
            was before a step in which none was.
        """
        newest = tuple(reports)
        total = self._since_last(newest)
        if self._begun is None:
            return 0.0, {}
        begun = self._begun
        until = monotonic if self._is_known(newest) else begun
        for step in reversed(self._steps):
            if until - begun >= seconds or not step.heard:
                break
            begun = step.begun
            for pair, delta in step.deltas.items():
                total[pair] = added(total[pair], delta) if pair in total else delta
        return until - begun, total

    def hour(self, model: str | None) -> FlowHistory:
        """Return the series of a model, or of all together; all gaps where nothing is known."""
        known = self._hours.get(model) or self._new_hour()
        series = tuple(
            Series(name=measure.name, unit=measure.unit, values=self._read(ring))
            for measure, ring in zip(FLOW_MEASURES, known.rings, strict=True)
        )
        return FlowHistory(step=STEP, until=self._until, series=series, model=model)

    def _is_known(self, reports: tuple[TrafficReport, ...]) -> bool:
        """Say whether any of those who report was heard at the end of the last step."""
        return any(self._boots.get(one.gateway) == one.boot for one in reports)

    def _since_last(self, reports: tuple[TrafficReport, ...]) -> Deltas:
        found: Deltas = {}
        for report in reports:
            before = self._workers.get((report.gateway, report.worker))
            if before is report or self._boots.get(report.gateway) != report.boot:
                continue
            older = {} if before is None else {one.model: one for one in before.models}
            for model in report.models:
                known = older.get(model.model)
                pair = (report.gateway, model.model)
                if known == model or (pair not in found and len(found) >= PAIRS_MOST):
                    continue
                delta = model if known is None else since(model, known)
                found[pair] = added(found[pair], delta) if pair in found else delta
        return found

    def _keep_hour(
        self, reports: tuple[TrafficReport, ...], queues: Queues, deltas: Deltas, seconds: float
    ) -> None:
        came: dict[str | None, ModelTraffic] = {}
        for (_, model), delta in deltas.items():
            for name in (None, model):
                came[name] = added(came[name], delta) if name in came else delta
        flights = levels(reports)
        waits = queued_by_model(queues)
        for name in {None, *came, *(name for name, count in flights.items() if count), *waits}:
            hour = self._hours.get(name) or self._new_hour()
            self._hours[name], hour.last = hour, self._tick
        self._let_go()
        for name, hour in self._hours.items():
            level = sum(flights.values()) if name is None else flights.get(name, 0)
            waiting = sum(waits.values()) if name is None else waits.get(name, 0)
            values = measured(came.get(name), seconds, level, waiting)
            for ring, value in zip(hour.rings, values, strict=True):
                ring[self._tick % self._length] = nan if value is None else value

    def _keep_gap(self) -> None:
        """Note that of this step nothing is known."""
        self._let_go()
        for hour in self._hours.values():
            for ring in hour.rings:
                ring[self._tick % self._length] = nan

    def _new_hour(self) -> _Hour:
        return _Hour(self._tick, tuple(array("f", [nan]) * self._length for _ in FLOW_MEASURES))

    def _let_go(self) -> None:
        named = sorted((one.last, name) for name, one in self._hours.items() if name is not None)
        over = len(named) - MODELS_MOST
        for index, (last, name) in enumerate(named):
            if index < over or self._tick - last >= self._length:
                del self._hours[name]

    def _read(self, ring: "array[float]") -> Values:
        start = (self._tick + 1) % self._length
        values = (*ring[start:], *ring[:start])
        return tuple(None if isnan(one) else round(one, 5) for one in values)
