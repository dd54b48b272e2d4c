"""Whole clusters of real processes, ended with everything they started."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llmgw.base.places import Places
from llmgw.local.cluster import Layout, LocalCluster
from tests.cluster import FAST

Make = Callable[..., LocalCluster]


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Make]:
    made: list[LocalCluster] = []

    def make(*, settings: dict[str, Any] | None = None, log_level: str = "info") -> LocalCluster:
        places = Places.find("agent", environ=os.environ, root=False)
        cluster = LocalCluster(
            Layout(
                directory=str(tmp_path / f"cluster-{len(made)}"),
                weights=str(places.weights),
                engines=str(places.engines),
                settings=dict(FAST if settings is None else settings),
                log_level=log_level,
            ),
            os.environ,
        )
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.end()
