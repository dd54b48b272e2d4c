"""What replicas have in flight, as gateways and the engines themselves say."""

from collections.abc import Callable, Mapping
from math import inf

from llmgw.base.clock import Clock
from llmgw.control.asked import Asked
from llmgw.control.nodes import SeenNode
from llmgw.model.gateway import LoadReport, TrafficReport
from llmgw.model.shard import ShardUse
from llmgw.plan.records import Demand, Load

GONE = 600.0
"""Seconds after which a gateway that is away is taken to be no more: as long as a drain lasts at
most unless the settings say otherwise, so what it had in flight when it left has had its time."""


class Loads:
    """The newest word of every gateway.

    A gateway that is away goes on serving: what it has in flight is then not known, and neither is
    the sum over all. That is so for `GONE` seconds: one that was switched off or removed for good
    may not hold up each drain of an engine that does not count up to the limit.

    The word of one that is connected may be old: a link may be silently dead for three heartbeat
    intervals before it is cut. So no drain ends by counts from before `settled_until`.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reports: dict[str, LoadReport | None] = {}
        """By gateway; None: it is away, or has not said anything on its stream."""
        self._away: dict[str, float] = {}
        """Since when a gateway is away; monotonic seconds."""
        self._settled: dict[str, float] = {}
        """Until when a gateway that is connected is known to go by what it was told."""
        self._listeners: list[Callable[[], None]] = []
        self._asked = Asked(clock)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each report; it must neither block nor raise."""
        self._listeners.append(listener)

    def take(self, report: LoadReport) -> None:
        """Apply a gateway's report."""
        self._reports[report.gateway] = report
        for listener in self._listeners:
            listener()

    def counted(self, report: TrafficReport) -> None:
        """Apply what a gateway's worker counted."""
        self._asked.take(report)

    def unknown(self, gateway: str) -> None:
        """Note that a gateway is there and has said nothing yet."""
        self._reports[gateway] = None
        self._away.pop(gateway, None)
        self._settled.pop(gateway, None)

    def away(self, gateway: str) -> None:
        """Note that a gateway is away."""
        self.unknown(gateway)
        self._away[gateway] = self._clock.monotonic()

    def settled(self, gateway: str, until: float | None) -> None:
        """Note until when a gateway goes by what it was told, and has told what it had then."""
        before = self.settled_until()
        if until is not None:
            self._settled[gateway] = until
        if self.settled_until() > before:
            for listener in self._listeners:
                listener()

    def settled_until(self) -> float:
        """Return until when that is known of every gateway that is connected.

        Returns:
            Monotonic seconds; infinite where no gateway is connected.
        """
        there = self._reports.keys() - self._away.keys()
        return min((self._settled.get(one, -inf) for one in there), default=inf)

    def reports(self) -> dict[str, LoadReport]:
        """Return the newest report of each gateway that is there and has said something."""
        return {name: one for name, one in self._reports.items() if one is not None}

    def forget(self) -> None:
        """Know nothing: another leads, and whoever connects again says it again."""
        self._reports.clear()
        self._away.clear()
        self._settled.clear()
        self._asked = Asked(self._clock)

    def demands(self) -> tuple[Demand, ...]:
        """Return what is asked of each model of which anything is known, by name."""
        queued = self.queued()
        return tuple(
            self._asked.demand(model, queued.get(model, 0))
            for model in sorted(queued.keys() | self._asked.models())
        )

    def in_flight(self) -> dict[str, int] | None:
        """Return what gateways have at each replica that has anything; None: one can't say."""
        total: dict[str, int] = {}
        gone = self._clock.monotonic() - GONE
        for gateway, report in self._reports.items():
            if report is None:
                if self._away.get(gateway, inf) <= gone:
                    continue
                return None
            for one in report.replicas:
                if one.in_flight > 0:
                    total[one.replica] = total.get(one.replica, 0) + one.in_flight
        return total

    def queued(self) -> dict[str, int]:
        """Return how many requests wait at gateways for each model that nothing serves."""
        total: dict[str, int] = {}
        for report in self._reports.values():
            for one in report.queues if report is not None else ():
                total[one.model] = total.get(one.model, 0) + max(0, one.queued)
        return total

    def all(self, nodes: Mapping[str, SeenNode]) -> tuple[Load, ...]:
        """Return the load of every replica that nodes report, by id."""
        in_flight, found = self.in_flight(), {}
        for seen in nodes.values():
            uses = self._uses(seen)
            for replica, rank in seen.shards:
                if rank == 0 and (replica, rank) not in seen.foreign:
                    use, age = uses.get(replica, (None, None))
                    found[replica] = Load(
                        replica=replica,
                        in_flight=None if in_flight is None else in_flight.get(replica, 0),
                        running=use.requests_running if use is not None else None,
                        waiting=use.requests_waiting if use is not None else None,
                        cache_used=use.cache_used if use is not None else None,
                        age=age,
                    )
        return tuple(found[replica] for replica in sorted(found))

    def _uses(self, seen: SeenNode) -> dict[str, tuple[ShardUse, float]]:
        sample = seen.sample
        if sample is None:
            return {}
        age = max(0.0, self._clock.now() - sample.at)
        uses = sample.heartbeat.shards or ()
        return {use.replica: (use, age) for use in uses if use.rank == 0}
