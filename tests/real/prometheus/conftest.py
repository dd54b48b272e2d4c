"""One cluster and one Prometheus for all that look at them."""

import os
from collections.abc import Iterator

import pytest

from llmgw.base.places import Places
from llmgw.local.cluster import Layout
from tests.cluster import FAST, ClusterOfMachines
from tests.real.prometheus.watched import Watched, watch


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    place = tmp_path_factory.mktemp("watched")
    places = Places.find("agent", environ=os.environ, root=False)
    cluster = ClusterOfMachines(
        Layout(
            directory=str(place / "cluster"),
            weights=str(places.weights),
            engines=str(places.engines),
            settings=dict(FAST),
        ),
        os.environ,
    )
    try:
        yield watch(cluster, place)
    finally:
        cluster.end()
