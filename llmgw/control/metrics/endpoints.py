"""Where gateways send requests: how each of them sees each endpoint of a route."""

from collections.abc import Callable

from llmgw.control.metrics.family import FleetFamily, Samples
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.control.metrics.tally import Tally
from llmgw.control.metrics.text import Value, shown
from llmgw.model.gateway import LoadReport, ReplicaLoad

LABELS = ("gateway", "model", "endpoint")
AWAY = "while the gateway is away, and for an endpoint that no route has"

_Told = Callable[[LoadReport, ReplicaLoad | None], Value]


def _of(value: _Told) -> Callable[[Snapshot, Tally], Samples]:
    def read(seen: Snapshot, tally: Tally) -> Samples:
        for gateway, report in sorted(seen.gateway_loads.items()):
            named = {one.replica: one for one in report.replicas}
            for route in seen.routes:
                begin = f'gateway="{shown(gateway)}",model="{shown(route.model)}"'
                for one in route.endpoints:
                    told = value(report, named.get(one.replica))
                    yield f'{begin},endpoint="{shown(one.replica)}"', told

    return read


def _up(report: LoadReport, load: ReplicaLoad | None) -> Value:
    if not report.tells_failures:
        return None
    return int(load is None or load.failed_at == 0)


FAMILIES = (
    FleetFamily(
        name="llmgw_endpoint_up",
        labels=LABELS,
        unit="0 or 1",
        help="0: requests of a gateway to the endpoint failed, and none has been answered since; "
        "one at a time is tried.",
        absent=f"{AWAY}; of gateways of a version that does not tell",
        read=_of(_up),
    ),
    FleetFamily(
        name="llmgw_endpoint_requests_in_flight",
        labels=LABELS,
        unit="requests",
        help="Requests that a gateway has at an endpoint now.",
        absent=AWAY,
        read=_of(lambda _, load: 0 if load is None else load.in_flight),
    ),
    FleetFamily(
        name="llmgw_endpoint_score",
        labels=LABELS,
        unit="requests",
        help="What an endpoint has to do as a gateway's choice sees it: its own requests, those of "
        "others as the engine says, and more for one that starts. Of two the lower one is chosen.",
        absent=f"{AWAY}, and while the gateway has no request there",
        read=_of(lambda _, load: None if load is None else load.score),
    ),
)
