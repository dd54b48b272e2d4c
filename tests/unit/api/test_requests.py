"""Requests in flight over the admin API: listed, ended, audited; and how keys stand."""

import json

import httpx
import pytest
from starlette.applications import Starlette

from llmgw.base.errors import Unreachable
from llmgw.model.keys import UsageReport, UsageTotals
from tests.fakes.clock import FakeClock
from tests.fakes.fleet_parts import NOW
from tests.fakes.plane import FakePlane
from tests.unit.api.asking import client

REQUESTS = "/api/v1/requests"


@pytest.fixture
def http(app: Starlette, plane: FakePlane) -> httpx.AsyncClient:
    return client(app, plane.tokens_by_role["operate"])


async def test_requests_are_told_with_their_gateway_and_who_is_silent(http) -> None:
    told = (await http.get(REQUESTS)).json()
    assert [one["id"] for one in told["requests"]] == ["req-a-1", "req-a-2", "req-b-1", "req-b-2"]
    assert {one["gateway"] for one in told["requests"]} == {"gw-1"}
    assert (told["total"], told["matching"]) == (5, 4)
    assert told["silent"] == [{"gateway": "gw-2", "words": "it is not connected"}]
    newest = (await http.get(f"{REQUESTS}?newest=true&limit=2")).json()
    assert [one["id"] for one in newest["requests"]] == ["req-a-2", "req-a-1"]
    one = (await http.get(f"{REQUESTS}?ids=req-b-1,req-none")).json()
    assert [request["id"] for request in one["requests"]] == ["req-b-1"]


async def test_no_secret_is_among_what_is_told(http, plane: FakePlane) -> None:
    assert "sha256" not in (await http.get(REQUESTS)).text


async def test_one_is_ended_and_the_audit_says_whose_it_was(http, plane: FakePlane) -> None:
    answer = await http.delete(f"{REQUESTS}/req-a-1")
    assert answer.status_code == 204
    entry = plane.memory.audited[-1]
    assert (entry.action, entry.subject, entry.actor) == (
        "request.cancel",
        "req-a-1",
        "the operate token",
    )
    assert json.loads(entry.before or "") == {
        "requests": [
            {
                "id": "req-a-1",
                "key": "k7f2m9x1aa",
                "key_name": "lab",
                "model": "gemma3-270m",
                "client": "10.0.0.17:51544",
                "tokens": 183,
            }
        ],
        "more": 0,
    }
    assert "req-a-1" not in (await http.get(REQUESTS)).text


async def test_one_that_is_not_there_is_not_said_to_be_ended(http, plane: FakePlane) -> None:
    before = len(plane.memory.audited)
    answer = await http.delete(f"{REQUESTS}/req-none")
    assert answer.status_code == 503
    assert "gateway gw-2 says nothing: it is not connected" in answer.json()["error"]["message"]
    plane.fake_gateways.live.silent = ()
    answer = await http.delete(f"{REQUESTS}/req-none")
    assert answer.status_code == 404
    assert len(plane.memory.audited) == before


async def test_several_are_ended_with_one_entry_and_those_that_are_gone_are_no_error(
    http, plane: FakePlane
) -> None:
    before = len(plane.memory.audited)
    body = {"ids": ["req-a-1", "req-none", "req-b-2", "req-a-1"]}
    told = (await http.post(f"{REQUESTS}/cancel", json=body)).json()
    assert told["cancelled"] == ["req-a-1", "req-b-2"]
    assert told["gone"] == ["req-none"]
    (entry,) = plane.memory.audited[before:]
    assert entry.subject == "2 requests"
    mistakes: tuple[object, ...] = ({"ids": []}, {"ids": ["x"] * 1001}, {"ids": ["x" * 65]}, {})
    for wrong in mistakes:
        assert (await http.post(f"{REQUESTS}/cancel", json=wrong)).status_code == 400


async def test_nobody_is_cut_off_without_a_trace(http, plane: FakePlane, monkeypatch) -> None:
    async def away(entry: object) -> None:
        raise Unreachable("the store is away")

    monkeypatch.setattr(plane.memory, "put_audit", away)
    assert (await http.delete(f"{REQUESTS}/req-a-1")).status_code == 503
    assert "req-a-1" in (await http.get(REQUESTS)).text


async def test_a_standby_does_not_say_that_nothing_is_in_flight(http, plane: FakePlane) -> None:
    plane.leading = False
    answer = await http.get(REQUESTS)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_leader")


async def test_whoever_may_only_read_sees_and_ends_nothing(
    app: Starlette, plane: FakePlane
) -> None:
    async with client(app, plane.tokens_by_role["read"]) as reader:
        assert (await reader.get(REQUESTS)).status_code == 200
        assert (await reader.delete(f"{REQUESTS}/req-a-1")).status_code == 403


async def test_how_a_key_stands_is_told_also_once_it_was_revoked(
    http, plane: FakePlane, clock: FakeClock
) -> None:
    key = plane.keys.all()[0]
    await clock.advance(60)
    for sequence, (name, hour) in enumerate(
        ((key.id, NOW), (key.id, NOW - 2 * 3600), ("gone", NOW - 3 * 3600)), 1
    ):
        totals = UsageTotals(key=name, model="m", requests=sequence, prompt_tokens=10 * sequence)
        said = UsageReport(gateway=name, boot="b", worker=sequence, sequence=1, totals=(totals,))
        await plane.store.apply_usage(said, at=hour)
    here, gone = (await http.get("/api/v1/key-use")).json()
    assert (here["id"], here["name"], here["revoked"]) == (key.id, key.name, False)
    assert (here["hour"]["requests"], here["day"]["requests"]) == (1, 3)
    assert here["day"]["prompt_tokens"] == 30
    assert here["last_used"] == NOW - NOW % 3600
    assert (gone["id"], gone["name"], gone["revoked"]) == ("gone", None, True)


async def test_traffic_says_who_waits_for_longest_only_where_anybody_waits(
    http, plane: FakePlane, monkeypatch
) -> None:
    assert (await http.get("/api/v1/traffic")).json()["oldest_waiting"] == 0.8
    plane.fake_gateways.live.requests.clear()
    assert (await http.get("/api/v1/traffic")).json()["oldest_waiting"] is None
    monkeypatch.setattr(plane.fake_gateways, "queues", dict)
    monkeypatch.setattr(plane.fake_gateways, "live", None)
    assert (await http.get("/api/v1/traffic")).json()["oldest_waiting"] is None, "nobody is asked"


@pytest.mark.parametrize("path", ["traffic", "traffic-history"])
async def test_a_standby_does_not_say_that_nothing_goes_on(http, plane, path) -> None:
    plane.leading = False
    answer = await http.get(f"/api/v1/{path}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_leader")
