"""What each resource does beyond its role and its shape."""

import json
import re
from typing import Any

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from llmgw.control.api.app import build
from llmgw.model.commands import ReadLogs
from llmgw.model.device import MIG, Device
from llmgw.model.events import Event
from llmgw.model.feed import NODES
from llmgw.model.keys import UsageReport, UsageTotals
from tests.fakes.clock import FakeClock
from tests.fakes.fleet_parts import NOW
from tests.fakes.fleets import gpu8
from tests.fakes.plane import FakePlane
from tests.fakes.plane_records import ENGINE_KEY
from tests.unit.api.asking import MODEL, WHATEVER, client


@pytest.fixture
def http(app: Starlette, plane: FakePlane) -> httpx.AsyncClient:
    return client(app, plane.tokens_by_role["admin"])


async def ok(answer: httpx.Response) -> Any:
    assert answer.status_code in {200, 201, 204}, answer.text
    return answer.json() if answer.content else None


async def test_the_status_says_what_is_wrong(http: httpx.AsyncClient, plane: FakePlane) -> None:
    status = await ok(await http.get("/api/v1/status"))
    assert status["nodes"] == {"ready": 1}
    assert status["replicas"] == {"ready": 1}
    (model,) = status["models"]
    assert model == {
        "name": "gemma3-270m", "wanted": 1, "ready": 1, "reason": None, "note": None
    }  # fmt: skip
    assert status["sentence"] == "stops old-000001: left the catalog"
    assert {"subject": "gw-2", "words": "the gateway is not connected"} in status["problems"]
    assert status["passes"][0]["sentence"] == "nothing to do: every node is ready"


async def test_the_status_counts_devices_by_class_and_by_what_they_are() -> None:
    plane = await FakePlane(gpu8(), FakeClock(NOW)).prepare()
    node = plane.fleet.node("gpu-01")
    assert node is not None
    cut = Device(uuid="GPU-cut", device_class="h100-80g", mig_enabled=True)
    part = Device(uuid="MIG-1", device_class="h100-80g-mig-3g.40gb", kind=MIG, card_uuid=cut.uuid)
    inventory = node.inventory
    more = msgspec.structs.replace(inventory, devices=(*(inventory.devices or ()), cut, part))
    plane.fake_fleet.put(NODES, node.id, msgspec.structs.replace(node, inventory=more))
    async with client(build(plane), plane.tokens_by_role["read"]) as http:
        status = await ok(await http.get("/api/v1/status"))
    assert status["devices"] == {
        "h100-80g": {"foreign": 1, "held": 6, "unhealthy": 1},
        "h100-80g-mig-3g.40gb": {"free": 1},
    }


async def test_a_model_is_added_changed_and_removed_under_its_version(
    http: httpx.AsyncClient,
) -> None:
    path = "/api/v1/models/tiny"
    added = await ok(await http.put(path, json=MODEL, headers={"If-Match": "0"}))
    assert (added["version"], added["changed_by"]) == (1, "the admin token")
    again = await http.put(path, json=MODEL, headers={"If-Match": "0"})
    assert again.status_code == 409
    assert (await ok(await http.put(path, json=MODEL, headers={"If-Match": '"1"'})))["version"] == 1
    for version, match in ((2, '"1"'), (3, "2"), (4, "*")):
        changed = {**MODEL, "generation": version}
        assert (await ok(await http.put(path, json=changed, headers={"If-Match": match})))[
            "version"
        ] == version
    shown = await ok(await http.get(path))
    assert (shown["version"], shown["ready"], shown["wanted"]) == (4, 0, 1)
    assert await ok(await http.delete(path)) is None
    assert (await http.get(path)).status_code == 404
    history = await ok(await http.get("/api/v1/model-history/tiny"))
    assert [entry["version"] for entry in history] == [4, 3, 2, 1]


async def test_what_a_model_replaces_has_to_be_said(http: httpx.AsyncClient) -> None:
    path = "/api/v1/models/tiny"
    await ok(await http.put(path, json=MODEL, headers={"If-Match": "0"}))
    answer = await http.put(path, json={**MODEL, "generation": 1})
    assert answer.status_code == 428
    error = answer.json()["error"]
    assert error["code"] == "version_needed"
    assert error["hint"].endswith("* to replace whatever is there")
    assert (await ok(await http.get(path)))["version"] == 1


async def test_who_was_faster_is_said_and_when(http: httpx.AsyncClient) -> None:
    path = "/api/v1/models/tiny"
    await ok(await http.put(path, json=MODEL, headers={"If-Match": "0"}))
    for read in ("0", "7"):
        late = {**MODEL, "generation": 1}
        answer = await http.put(path, json=late, headers={"If-Match": read})
        assert answer.status_code == 409
        words = r"at version 1, changed by the admin token at \d{4}-\d\d-\d\d [\d:]{8} UTC"
        assert re.search(words, answer.json()["error"]["message"])
    gone = await http.put(
        "/api/v1/models/x", json={**MODEL, "name": "x"}, headers={"If-Match": "3"}
    )
    assert gone.json()["error"]["hint"] == "who removed it says: llmgw ctl audit"


async def test_a_models_name_may_hold_slashes_and_colons(http: httpx.AsyncClient) -> None:
    name = "meta-llama/Llama-3.3:70B instruct"
    body = {**MODEL, "name": name}
    await ok(await http.put(f"/api/v1/models/{name}", json=body, headers=WHATEVER))
    assert (await ok(await http.get(f"/api/v1/models/{name}")))["model"]["name"] == name
    encoded = "meta-llama%2FLlama-3.3%3A70B%20instruct"
    assert (await ok(await http.get(f"/api/v1/models/{encoded}")))["model"]["name"] == name


async def test_a_model_under_another_name_is_refused(http: httpx.AsyncClient) -> None:
    answer = await http.put("/api/v1/models/other", json=MODEL, headers=WHATEVER)
    assert answer.status_code == 400
    assert answer.json()["error"]["problems"][0]["path"] == "name"


async def test_every_problem_of_a_model_is_told_with_its_path(http: httpx.AsyncClient) -> None:
    body = {
        "name": "tiny",
        "source": {"kind": "url", "url": "ftp://h/x", "sha256": "12"},
        "profiles": [{"engine": "magic", "gpus": -1}, {"engine": "simulated"}],
    }
    answer = await http.put("/api/v1/models/tiny", json=body, headers=WHATEVER)
    assert answer.status_code == 400
    paths = {problem["path"] for problem in answer.json()["error"]["problems"]}
    assert {"source.url", "source.sha256", "profiles[0].engine", "profiles[1].name"} <= paths


async def test_a_mistyped_field_is_told_with_the_nearest_name(http: httpx.AsyncClient) -> None:
    body = {"name": "tiny", "profiles": [{"engine": "simulated", "gpu": 1}]}
    error = (await http.put("/api/v1/models/tiny", json=body)).json()["error"]
    assert "gpu: no such field; did you mean 'gpus'?" in error["message"]


async def test_every_mistake_of_a_body_is_told_at_once_those_of_its_meaning_too(
    http: httpx.AsyncClient,
) -> None:
    body = {
        "name": " tiny",
        "sorce": None,
        "profiles": [{"engine": "vlm", "gpus": "two", "contxt": 5}, {"replicas": -1}],
    }
    told = {
        "name",
        "sorce",
        "profiles[0].gpus",
        "profiles[0].contxt",
        "profiles[0].engine",
        "profiles[1].engine",
        "profiles[1].name",
        "profiles[1].replicas",
    }
    for method, path in (("PUT", "/api/v1/models/%20tiny"), ("POST", "/api/v1/plan/model")):
        answer = await http.request(method, path, json=body)
        assert answer.status_code == 400, path
        assert {one["path"] for one in answer.json()["error"]["problems"]} == told, path
    answer = await http.post("/api/v1/jobs", json={"kind": "serve", "model": body, "verson": 1})
    problems = {one["path"] for one in answer.json()["error"]["problems"]}
    assert problems == {"verson", *(f"model.{path}" for path in told)}


async def test_a_key_is_shown_once(http: httpx.AsyncClient, plane: FakePlane) -> None:
    made = await ok(await http.post("/api/v1/keys", json={"name": "lab", "expires_in": 60}))
    assert made["expires"] == NOW + 60
    assert made["key"].startswith(f"llmgw_{made['id']}_")
    listed = await http.get("/api/v1/keys")
    assert made["key"] not in listed.text
    assert "key" not in listed.json()[0]
    await ok(await http.delete(f"/api/v1/keys/{made['id']}"))
    assert plane.keys.get(made["id"]) is None
    assert (await http.delete(f"/api/v1/keys/{made['id']}")).status_code == 404


async def test_a_token_is_shown_once_and_opens_until_it_is_removed(
    app: Starlette, http: httpx.AsyncClient
) -> None:
    made = await ok(await http.post("/api/v1/tokens", json={"role": "read", "name": "grafana"}))
    async with client(app, made["token"]) as other:
        await ok(await other.get("/api/v1/nodes"))
        assert made["token"] not in (await http.get("/api/v1/tokens")).text
        await ok(await http.delete(f"/api/v1/tokens/{made['id']}"))
        assert (await other.get("/api/v1/nodes")).status_code == 401


async def test_the_last_admin_token_stays(http: httpx.AsyncClient, plane: FakePlane) -> None:
    admin = next(token for token in plane.tokens.all() if token.role == "admin")
    assert (await http.delete(f"/api/v1/tokens/{admin.id}")).status_code == 409


async def test_a_setting_is_changed_by_its_path(http: httpx.AsyncClient) -> None:
    put = "/api/v1/settings"
    seen = await ok(await http.get(put))
    body = {"path": "link.lost_after", "value": 90, "expected": seen["version"]}
    changed = await ok(await http.put(put, json=body))
    assert changed["settings"]["link"]["lost_after"] == 90
    assert (await http.put(put, json=body)).status_code == 409
    history = await ok(await http.get("/api/v1/settings-history?path=link"))
    assert [(one["path"], one["before"], one["after"]) for one in history] == [
        ("link.lost_after", "60.0", "90.0")
    ]
    await ok(await http.put(put, json={"path": "link.lost_after", "value": None}))
    assert (await ok(await http.get(put)))["settings"]["link"]["lost_after"] == 60


@pytest.mark.parametrize(
    "body",
    [
        {"path": "link.lost_aftr", "value": 90},
        {"path": "nope.x", "value": 1},
        {"path": "link.lost_after", "value": "soon"},
        {"path": "link.lost_after", "value": -1},
        {"path": "link.lost_after.x", "value": 1},
        {"path": "a..b", "value": 1},
        {"path": "", "value": 3},
        {"path": "link.lost_after"},
        {"path": "link.lost_after", "value": 90, "expected": "x"},
        {"path": "link.lost_after", "value": 90, "force": True},
    ],
)
async def test_a_setting_that_is_not_right_changes_nothing(
    http: httpx.AsyncClient, plane: FakePlane, body: dict[str, Any]
) -> None:
    answer = await http.put("/api/v1/settings", json=body)
    assert answer.status_code == 400
    assert plane.settings.current.version == 0


async def test_a_node_is_cordoned_released_and_removed(
    http: httpx.AsyncClient, plane: FakePlane
) -> None:
    wish = "/api/v1/nodes/atlas/wish"
    assert (await ok(await http.post(wish, json={"wish": "draining"})))["wish"] == "draining"
    assert (await ok(await http.post(wish, json={"wish": None})))["wish"] is None
    assert (await http.post(wish, json={"wish": "gone"})).status_code == 400
    assert (await http.post(wish, json={})).status_code == 400
    await ok(await http.delete("/api/v1/nodes/atlas"))
    assert plane.fleet.nodes() == ()
    assert (await http.delete("/api/v1/nodes/atlas")).status_code == 404


async def test_a_node_is_shown_with_its_last_heartbeat(
    http: httpx.AsyncClient, plane: FakePlane
) -> None:
    shown = await ok(await http.get("/api/v1/nodes/atlas"))
    sample = plane.fake_fleet.sample("atlas")
    assert sample is not None
    assert shown["sampled_at"] == sample.at
    assert shown["sample"]["cpus"] == 2
    plane.fake_fleet.put("samples", "atlas", None)
    shown = await ok(await http.get("/api/v1/nodes/atlas"))
    assert (shown["sample"], shown["sampled_at"]) == (None, None)


async def test_logs_are_asked_of_the_node(http: httpx.AsyncClient, plane: FakePlane) -> None:
    logs = await ok(await http.get("/api/v1/nodes/atlas/logs?source=m-1/0&lines=1"))
    assert logs == {"lines": ["registered with 127.0.0.1:7442"], "sources": ["m-1/0"]}
    assert plane.fake_agents.asked == [("atlas", ReadLogs(source="m-1/0", lines=1))]


async def test_a_join_token_is_bound_to_a_role_and_an_id(http: httpx.AsyncClient) -> None:
    body = {"role": "node", "subject": "borea"}
    made = await ok(await http.post("/api/v1/join-tokens", json=body))
    assert made["token"].startswith("llmgw1.")
    assert made["expires"] == NOW + 3600
    for role in ("admin", "server", ""):
        answer = await http.post("/api/v1/join-tokens", json={**body, "role": role})
        assert answer.status_code == 400


async def test_events_come_from_memory_or_from_the_store_when_it_reaches_further(
    http: httpx.AsyncClient, plane: FakePlane
) -> None:
    old = Event(id="1", at=5.0, severity="info", kind="node", subject="x", words="long ago")
    await plane.store.add_event(old)
    newest = await ok(await http.get("/api/v1/events"))
    assert [event["words"] for event in newest][-1] == "ready on atlas: CPU, port 7500"
    recent = await ok(await http.get(f"/api/v1/events?since={NOW - 6}"))
    assert len(recent) == 1
    since = await ok(await http.get("/api/v1/events?since=1"))
    assert since[0]["words"] == "long ago"
    assert len(since) == len(newest) + 1, "what may not lie in the store yet is among them"


async def test_usage_is_of_the_last_day_unless_told(
    http: httpx.AsyncClient, plane: FakePlane, clock: FakeClock
) -> None:
    for sequence, hour in enumerate((NOW - 3600, NOW - 90_000 - 3600), 1):
        totals = UsageTotals(key="k", model="m", requests=sequence)
        said = UsageReport(gateway="g", boot="b", worker=0, sequence=sequence, totals=(totals,))
        await plane.store.apply_usage(said, at=hour)
    assert len(await ok(await http.get("/api/v1/usage"))) == 1
    assert len(await ok(await http.get(f"/api/v1/usage?since={NOW - 100_000}"))) == 2
    answer = await http.get(f"/api/v1/usage?since={NOW}&until={NOW - 1}")
    assert answer.status_code == 400


async def test_the_plan_is_null_before_the_first(http: httpx.AsyncClient, plane: FakePlane) -> None:
    assert (await ok(await http.get("/api/v1/plan")))["number"] == 12
    plane.decisions.forget()
    assert (await http.get("/api/v1/plan")).text == "null"


async def test_the_api_describes_itself(http: httpx.AsyncClient) -> None:
    described = await ok(await http.get("/api/v1/openapi.json"))
    assert "/api/v1/nodes/{id}" in described["paths"]


async def test_a_list_names_its_records(http: httpx.AsyncClient, plane: FakePlane) -> None:
    listed = await ok(await http.get("/api/v1/list?topics=nodes,routes,settings,nodes"))
    assert listed["position"]["epoch"] == "epoch-1"
    assert listed["ids"] == {
        "nodes": ["atlas"],
        "routes": ["gemma3-270m"],
        "settings": ["cluster", "gateway"],
    }
    assert listed["topics"]["nodes"][0]["id"] == "atlas"
    (endpoint,) = listed["topics"]["routes"][0]["endpoints"]
    assert endpoint["keyed"] is True
    assert "key" not in endpoint
    assert ENGINE_KEY not in json.dumps(listed)


@pytest.mark.parametrize("path", ["/api/v1/list", "/api/v1/watch"])
async def test_a_topic_that_is_unknown_is_told_with_the_nearest(
    http: httpx.AsyncClient, path: str
) -> None:
    answer = await http.get(f"{path}?topics=nodez")
    assert answer.status_code == 400
    assert answer.json()["error"]["hint"] == "did you mean 'nodes'?"
    assert (await http.get(path)).status_code == 400
    assert (await http.get(f"{path}?topics=")).status_code == 400
