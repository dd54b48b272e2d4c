"""What a gateway tells a control plane of itself, of what is in flight, of how requests went."""

from collections import Counter
from collections.abc import Mapping, Sequence

import llmgw
from llmgw.gateway.places import Place
from llmgw.model.gateway import (
    ENGINE_LOADS,
    LOADS,
    QUOTAS,
    REACHED,
    RESTARTS,
    GatewayRegister,
    LoadReport,
    ModelQueue,
    ReplicaLoad,
    TrafficReport,
    WorkersReport,
    WorkerStart,
)
from llmgw.model.live import REQUESTS

FEATURES = (REACHED, LOADS, QUOTAS, ENGINE_LOADS, REQUESTS, RESTARTS)
"""What this gateway can do beyond the first release's."""


def register(gateway: str, boot: str, workers: int, url: str) -> GatewayRegister:
    """Return a gateway's first message on a stream."""
    return GatewayRegister(
        gateway=gateway,
        version=llmgw.__version__,
        boot=boot,
        workers=workers,
        url=url,
        features=FEATURES,
    )


def load_report(gateway: str, in_flight: Mapping[str, int], places: Sequence[Place]) -> LoadReport:
    """Return what a gateway has in flight by replica, and what waits at its workers by model.

    Replicas that failed are named too.
    """
    waiting = sum((Counter(place.waiting) for place in places), Counter())
    failed = Counter(name for place in places for name in place.standing.failed)
    scores: dict[str, float] = {}
    for place in places:
        for name, score in place.standing.scores.items():
            scores[name] = max(score, scores.get(name, score))
    return LoadReport(
        gateway=gateway,
        replicas=tuple(
            ReplicaLoad(
                replica=name,
                in_flight=in_flight.get(name, 0),
                failed_at=failed[name],
                score=scores.get(name) if name in in_flight else None,
            )
            for name in sorted(in_flight.keys() | failed.keys())
        ),
        queues=tuple(ModelQueue(model=m, queued=n) for m, n in sorted(waiting.items())),
        tells_failures=True,
    )


def traffic_report(gateway: str, boot: str, place: Place) -> TrafficReport:
    """Return how the requests of one place went."""
    models = tuple(place.traffic.values())
    return TrafficReport(gateway=gateway, boot=boot, worker=place.number, models=models)


def workers_report(gateway: str, places: Sequence[Place]) -> WorkersReport:
    """Return which workers a gateway has, those too that finish what they began."""
    return WorkersReport(
        gateway=gateway,
        workers=tuple(
            WorkerStart(worker=place.number, began=place.began)
            for place in places
            if place.began is not None
        ),
    )
