"""One scrape: gather on the loop, make text beside it."""

from collections.abc import Iterable

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from llmgw.control.metrics.families import FAMILIES
from llmgw.control.metrics.family import collected
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.control.plane import Plane

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


def gather(plane: Plane) -> Snapshot:
    """Return everything that a scrape shows, at this moment.

    It collects references to records that are there already, so it takes the loop for a few
    milliseconds on a thousand nodes; what takes long is `render`, which may run in a thread.
    """
    observed = plane.fleet.observed()
    rooms = observed.nodes
    samples = (plane.fleet.sample(room.node.id) for room in rooms)
    return Snapshot(
        now=plane.clock.now(),
        cluster=plane.cluster,
        server=plane.server_id,
        version=plane.version,
        leader=plane.leader,
        term=plane.term,
        followers=plane.feed.followers,
        agents=plane.agents.count,
        rooms=rooms,
        samples=tuple(sample for sample in samples if sample is not None),
        replicas=observed.replicas,
        routes=plane.fleet.routes(),
        gateways=plane.gateways.all(),
        traffic=tuple(plane.gateways.traffic_by_model().values()),
        passes={name: one.last for name, one in plane.passes.items()},
        plan=plane.last_plan,
        models_of={one.id: one.model for one in observed.replicas if one.model is not None},
    )


def render(seen: Snapshot) -> bytes:
    """Return the text that Prometheus scrapes."""
    return generate_latest(FleetCollector(seen))


class FleetCollector(Collector):
    """All families of one snapshot, and those of this process.

    A control plane that does not lead exports nothing of the fleet: the leader does.

    Args:
        seen: the snapshot.
        process: where this process's own figures come from; None leaves them out.
    """

    def __init__(self, seen: Snapshot, process: Collector | None = None) -> None:
        self._seen = seen
        self._process = process or ProcessCollector(registry=None)

    def collect(self) -> Iterable[Metric]:
        """Yield every family that has a sample."""
        for family in FAMILIES:
            if self._seen.leader or family.always:
                metric = collected(family, self._seen)
                if metric.samples:
                    yield metric
        yield from self._process.collect()
