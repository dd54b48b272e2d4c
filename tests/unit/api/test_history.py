"""How a node was: from memory, from a Prometheus, and in words where it can't be said."""

import json

import httpx
import pytest
from starlette.applications import Starlette

from llmgw.control.history import LENGTH, STEP, History
from llmgw.control.prometheus import Prometheus
from llmgw.model.history import NODE_MEASURES
from llmgw.model.node import Heartbeat, Sample
from tests.fakes.fleet_parts import NOW
from tests.fakes.plane import FakePlane
from tests.unit.api.asking import client

OLDER = NOW - 3660
"""Longer ago than memory reaches."""
PATH = "/api/v1/nodes/atlas/history"


@pytest.fixture
def http(app: Starlette, plane: FakePlane) -> httpx.AsyncClient:
    plane.history = History()
    for tick in range(1, LENGTH + 1):
        plane.history.begin(tick, NOW)
        beat = Heartbeat(sequence=tick, cpu_percent=None if tick % 2 else float(tick % 100))
        plane.history.keep(Sample(id="atlas", at=NOW, heartbeat=beat))
        plane.history.end()
    return client(app, plane.tokens_by_role["read"])


async def test_an_hour_comes_from_memory_with_nulls_for_gaps(http: httpx.AsyncClient) -> None:
    told = (await http.get(PATH)).json()
    assert (told["step"], told["until"]) == (STEP, NOW)
    assert (told["source"], told["problem"]) == ("memory", None)
    assert [one["name"] for one in told["series"]] == [one.name for one in NODE_MEASURES]
    cpu = told["series"][0]
    assert (cpu["device"], cpu["unit"], len(cpu["values"])) == (None, "percent", LENGTH)
    assert cpu["values"][-4:] == [None, 58.0, None, 60.0]


async def test_fewer_minutes_and_one_series_can_be_asked_for(http: httpx.AsyncClient) -> None:
    told = (await http.get(f"{PATH}?series=cpu&minutes=1")).json()
    (cpu,) = told["series"]
    assert cpu["values"] == [None, 56.0, None, 58.0, None, 60.0]


async def test_a_series_that_is_unknown_is_told_with_the_nearest(http: httpx.AsyncClient) -> None:
    answer = await http.get(f"{PATH}?series=cpu,bussy")
    assert answer.status_code == 400
    assert answer.json()["error"]["hint"] == "did you mean 'busy'?"
    assert (await http.get(f"{PATH}?minutes=0")).status_code == 400
    assert (await http.get("/api/v1/nodes/nobody/history")).status_code == 404


async def test_more_than_an_hour_without_a_prometheus_is_the_hour_and_says_so(
    http: httpx.AsyncClient,
) -> None:
    told = (await http.get(f"{PATH}?minutes=360&series=cpu")).json()
    assert told["problem"] == "only the last hour is kept; for more, set prometheus.url"
    assert (told["source"], len(told["series"][0]["values"])) == ("memory", LENGTH)


async def test_more_than_an_hour_is_asked_of_the_prometheus_that_is_set(
    http: httpx.AsyncClient, plane: FakePlane
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.host == "prometheus"
        line = {"metric": {}, "values": [[OLDER, "12.5"], [OLDER + 60, "7"]]}
        body = {"status": "success", "data": {"resultType": "matrix", "result": [line]}}
        return httpx.Response(200, content=json.dumps(body))

    plane.prometheus = Prometheus(httpx.MockTransport(answer))
    await plane.settings.put("prometheus.url", "http://prometheus:9090", actor="anna")
    told = (await http.get(f"{PATH}?minutes=360&series=cpu")).json()
    assert (told["source"], told["step"], told["problem"]) == ("prometheus", 60.0, None)
    values = told["series"][0]["values"]
    # Each minute's last step is an even one, of which memory has a value.
    kept = [float(tick % 100) for tick in range(6, LENGTH + 1, 6)]
    assert values[-63:] == [None, 12.5, 7.0, *kept]
    assert (await http.get(f"{PATH}?minutes=60")).json()["source"] == "memory"


async def test_a_prometheus_that_is_away_costs_only_what_is_older_than_an_hour(
    http: httpx.AsyncClient, plane: FakePlane
) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Connection refused")

    plane.prometheus = Prometheus(httpx.MockTransport(refuse))
    await plane.settings.put("prometheus.url", "http://prometheus:9090", actor="anna")
    told = (await http.get(f"{PATH}?minutes=360&series=cpu")).json()
    assert told["problem"] == (
        "only the last hour is told: Prometheus can't be reached: Connection refused"
    )
    assert (told["source"], told["series"][0]["values"][-1]) == ("memory", 60.0)
