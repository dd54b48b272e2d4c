"""Users' keys over the API: limits, changes, what was used of them; usage added up."""

from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from llmgw.model.keys import QuotaFigures, QuotaReport, QuotaUse, UsageReport, UsageTotals
from tests.fakes.fleet_parts import NOW
from tests.fakes.plane import FakePlane
from tests.unit.api.asking import client

KEYS = "/api/v1/keys"


@pytest.fixture
def http(app: Starlette, plane: FakePlane) -> httpx.AsyncClient:
    return client(app, plane.tokens_by_role["admin"])


async def ok(answer: httpx.Response) -> Any:
    assert answer.status_code in {200, 201, 204}, answer.text
    return answer.json() if answer.content else None


async def test_a_key_is_made_with_limits_and_changed_field_by_field(
    http: httpx.AsyncClient, plane: FakePlane
) -> None:
    body = {"name": "lab", "requests_per_minute": 60, "concurrent": 4, "priority": 2}
    made = await ok(await http.post(KEYS, json=body))
    where = f"{KEYS}/{made['id']}"
    assert (made["requests_per_minute"], made["tokens_per_day"]) == (60, None)
    edit = {"tokens_per_day": 1000, "concurrent": None, "models": ["m"], "expires_in": 60}
    changed = await ok(await http.put(where, json=edit))
    assert changed == {
        **{name: value for name, value in made.items() if name != "key"},
        "tokens_per_day": 1000,
        "concurrent": None,
        "models": ["m"],
        "expires": NOW + 60,
    }
    assert changed in await ok(await http.get(KEYS))
    assert (await ok(await http.put(where, json={"expires_in": None})))["expires"] is None
    (stored,) = [key for key in await plane.memory.keys() if key.id == made["id"]]
    assert (stored.priority, stored.tokens_per_day) == (2, 1000)
    newest = (await plane.memory.audit(1))[0]
    assert (newest.action, newest.subject) == ("key.put", made["id"])
    assert "tokens_per_day" in (newest.after or "")
    assert '"sha256":"***"' in (newest.after or "")


@pytest.mark.parametrize(
    "edit",
    [
        {"requests_per_minute": 0},
        {"tokens_per_day": -1},
        {"concurrent": 1.5},
        {"priority": 11},
        {"priority": None},
        {"name": ""},
        {"name": None},
        {"expires_in": 0},
        {"sha256": "0"},
    ],
)
async def test_a_bad_change_is_refused_and_changes_nothing(
    edit: dict[str, object], http: httpx.AsyncClient, plane: FakePlane
) -> None:
    made = await ok(await http.post(KEYS, json={"name": "lab"}))
    before = plane.keys.get(made["id"])
    assert (await http.put(f"{KEYS}/{made['id']}", json=edit)).status_code == 400
    assert plane.keys.get(made["id"]) == before


async def test_a_key_that_is_not_there_is_not_found(http: httpx.AsyncClient) -> None:
    assert (await http.put(f"{KEYS}/nope", json={"priority": 1})).status_code == 404


async def test_what_keys_with_limits_used_is_told(
    http: httpx.AsyncClient, plane: FakePlane
) -> None:
    made = await ok(await http.post(KEYS, json={"name": "lab", "requests_per_minute": 5}))
    quiet = {"id": made["id"], "used": None, "over": False}
    assert quiet in await ok(await http.get("/api/v1/quotas"))
    quotas = plane.fake_gateways.quotas
    for gateway in ("g1", "g2"):
        quotas.connected(gateway)
        figures = QuotaFigures(requests_per_minute=3)
        use = QuotaUse(key=made["id"], used=figures, held=figures, short=gateway == "g2")
        quotas.take(QuotaReport(gateway=gateway, keys=(use,)))
    answer = await ok(await http.get("/api/v1/quotas"))
    (told,) = [one for one in answer if one["id"] == made["id"]]
    assert told["over"]
    assert told["used"]["requests_per_minute"] == 6
    assert told["used"]["tokens_per_day"] is None


async def test_usage_is_added_up_by_what_is_told_apart(
    http: httpx.AsyncClient, plane: FakePlane
) -> None:
    day = NOW - NOW % 86400
    for sequence, (hour, key, model) in enumerate(
        [(day, "a", "m"), (day + 3600, "a", "n"), (day + 3600, "b", "m"), (day - 3600, "a", "m")], 1
    ):
        totals = UsageTotals(
            key=key, model=model, requests=1, prompt_tokens=10, completion_tokens=5, cancelled=1
        )
        report = UsageReport(
            gateway="g", boot=str(sequence), worker=0, sequence=1, totals=(totals,)
        )
        await plane.store.apply_usage(report, at=hour)

    async def sums(by: str) -> list[tuple[object, ...]]:
        since = f"since={day - 7200}&until={day + 7200}"
        rows = await ok(await http.get(f"/api/v1/usage/sums?{since}&by={by}"))
        assert sum(row["completion_tokens"] for row in rows) == 20
        return [(row["start"], row["key"], row["model"], row["requests"]) for row in rows]

    assert len(await sums("hour,key,model")) == 4
    assert await sums("day") == [(day - 86400, None, None, 1), (day, None, None, 3)]
    assert await sums("key") == [(None, "a", None, 3), (None, "b", None, 1)]
    assert await sums("model,%20hour") == [
        (day - 3600, None, "m", 1), (day, None, "m", 1),
        (day + 3600, None, "m", 1), (day + 3600, None, "n", 1),
    ]  # fmt: skip
    assert await sums("") == [(None, None, None, 4)]
    (one,) = await ok(await http.get(f"/api/v1/usage/sums?since={day - 7200}&by=key&key=b"))
    assert (one["key"], one["requests"]) == ("b", 1)
    assert await ok(await http.get(f"/api/v1/usage/sums?since={day - 7200}&key=none")) == []
    for wrong in ("week", "hour,day"):
        answer = await http.get(f"/api/v1/usage/sums?by={wrong}")
        assert answer.status_code == 400
