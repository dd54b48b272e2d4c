"""No counter falls: every scrape of a cluster whose control plane and gateway are killed."""

import http.client
import threading
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from llmgw.local import demo_model
from llmgw.local.cluster import LocalCluster, kill
from tests.real.cluster.conftest import Make
from tests.real.cluster.watching import Asking, ready
from tests.waiting import wait_for

pytestmark = pytest.mark.real

Series = tuple[str, tuple[tuple[str, str], ...]]


class Scraping:
    """Scrapes again and again; what falls between two scrapes that told it is in `fallen`."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._ending = threading.Event()
        self.last: dict[Series, float] = {}
        self.fallen: list[str] = []
        self.scrapes = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of the newest samples of a name with these labels."""
        wanted = set(labels.items())
        return sum(
            value
            for (told, named), value in self.last.items()
            if told == name and wanted <= set(named)
        )

    def end(self) -> None:
        self._ending.set()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._ending.wait(0.05):
            try:
                text = scrape(self._cluster)
            except (OSError, http.client.HTTPException):
                continue  # it is killed just now
            self.scrapes += 1
            for series, value in counters(text).items():
                if value < self.last.get(series, 0.0):
                    self.fallen.append(f"{series}: {self.last[series]} became {value}")
                self.last[series] = value


def scrape(cluster: LocalCluster) -> str:
    host, _, port = str(cluster.admin).rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def counters(text: str) -> dict[Series, float]:
    """Return what must never fall; the process's own counters begin anew with it."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for metric in text_string_to_metric_families(text)
        if metric.type in {"counter", "histogram"} and not metric.name.startswith("process_")
        for sample in metric.samples
    }


class Watched:
    """A cluster with a model, somebody who asks for it, and every scrape of it."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.model = demo_model.simulated()
        cluster.start(agents=1)
        cluster.put_model(self.model)
        ready(cluster, self.model.name)
        self.key = cluster.make_key("user")
        self.answered = 0
        self.meet_gateway()
        self.scraping = Scraping(cluster)

    def meet_gateway(self) -> None:
        """Wait until the gateway that runs now answers."""
        self.user = Asking(self.cluster, self.key, self.model.name)
        wait_for(self.user.works)
        self.answered += 1

    def ask(self, times: int) -> None:
        for _ in range(times):
            self.answered += self.user.works()

    def counted(self) -> float:
        """Return the newest total of the requests that were answered."""
        return self.scraping.total("llmgw_requests_total", model=self.model.name, code="200")

    def kill(self, *names: str) -> None:
        for name in names:
            kill(self.cluster.owner.services[name])


@pytest.fixture
def watched(make_cluster: Make) -> Iterator[Watched]:
    """Fail when any counter fell in the course of a test."""
    watched = Watched(make_cluster())
    yield watched
    watched.scraping.end()
    assert watched.scraping.fallen == []
    assert watched.scraping.scrapes > 20


def test_a_killed_control_plane_loses_no_request(watched: Watched) -> None:
    watched.ask(10)
    wait_for(lambda: watched.counted() == watched.answered, 20, what="requests are counted")
    # Killed right after requests: what was not stored yet comes from the gateway.
    watched.ask(5)
    watched.kill("server")
    watched.ask(5)
    watched.cluster.start_server()
    wait_for(lambda: watched.counted() == watched.answered, 30, what="every request is counted")


def test_the_next_gateways_requests_are_added_to_those_of_a_killed_one(watched: Watched) -> None:
    watched.ask(10)
    wait_for(lambda: watched.counted() == watched.answered, 20, what="requests are counted")
    watched.kill("gateway")
    watched.cluster.start_gateway()
    watched.meet_gateway()
    wait_for(lambda: watched.counted() == watched.answered, 20, what="every request is counted")


def test_when_both_are_killed_the_stored_total_is_shown_before_a_gateway_is_back(
    watched: Watched,
) -> None:
    watched.ask(10)
    wait_for(lambda: watched.counted() == watched.answered, 20, what="requests are counted")
    before, scrapes = watched.answered, watched.scraping.scrapes
    watched.kill("gateway", "server")
    watched.cluster.start_server()
    wait_for(lambda: watched.scraping.scrapes > scrapes + 3, 20, what="it is scraped again")
    told = counters(scrape(watched.cluster))
    assert sum(v for (n, _), v in told.items() if n == "llmgw_requests_total") >= before
    watched.cluster.start_gateway()
    watched.meet_gateway()
    wait_for(lambda: watched.counted() == watched.answered, 20, what="all gateways are added up")
