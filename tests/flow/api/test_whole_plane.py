"""The API over a whole control plane with its store on disk, as `llmgw server` has it."""

import random
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from llmgw.base.clock import SystemClock
from llmgw.control.api.app import build
from llmgw.control.api.table import OPERATIONS
from llmgw.control.nodes import Arrival
from llmgw.control.plane import Plane
from llmgw.control.world import World
from llmgw.model.node import Heartbeat, Host, Inventory, Register
from llmgw.model.shard import ShardSpec, ShardStatus
from llmgw.pki.authority import Authority
from llmgw.store.interface import StoredNode
from llmgw.store.sqlite import SqliteStore
from tests.unit.api.asking import MODEL, WHATEVER, client, url

SPEC = ShardSpec(
    replica="gemma3-270m-7k2m9x",
    model="tiny",
    profile="default",
    fingerprint="f",
    engine="simulated",
)


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    clock = SystemClock()
    plane = Plane(
        store=SqliteStore(tmp_path / "state" / "llmgw.db", version="0.1.0"),
        authority=Authority.create("lab", clock.now()),
        world=World(clock=clock, rng=random.Random(1), entropy=secrets.token_bytes),
        server_id="control-1",
        version="0.1.0",
        addresses=lambda: ("127.0.0.1:7442",),
    )
    await plane.open()
    yield plane
    await plane.close()


@pytest.fixture
async def http(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    _, text = await plane.tokens.make("admin", "anna", actor="setup")
    async with client(build(plane), text) as http:
        yield http


def register(plane: Plane) -> None:
    shard = ShardStatus(
        replica=SPEC.replica, state="ready", address="127.0.0.1", port=7500, spec=SPEC, keyed=True
    )
    plane.fleet.register(
        Register(
            node="atlas",
            agent_version="0.1.0",
            features=("logs", "shards"),
            inventory=Inventory(host=Host(cpus=2, memory_bytes=8 * 10**9)),
            shards=(shard,),
        ),
        Arrival(session=1, peer="127.0.0.1:40000", interval=5.0),
    )
    plane.fleet.heartbeat("atlas", 1, Heartbeat(sequence=1, cpus=2, cpu_percent=12.5))


async def ok(answer: httpx.Response) -> Any:
    assert answer.status_code in {200, 201, 204}, answer.text
    return answer.json() if answer.content else None


async def test_every_list_answers_on_an_empty_cluster(
    plane: Plane, http: httpx.AsyncClient
) -> None:
    for operation in OPERATIONS:
        if operation.method == "GET" and "{" not in operation.path and not operation.streams:
            answer = await http.get(url(operation))
            assert answer.status_code == 200, (operation.path, answer.text)


async def test_a_fleet_is_seen_through_every_list(plane: Plane, http: httpx.AsyncClient) -> None:
    await ok(await http.put("/api/v1/models/tiny", json=MODEL, headers=WHATEVER))
    register(plane)
    assert [node["id"] for node in await ok(await http.get("/api/v1/nodes"))] == ["atlas"]
    shown = await ok(await http.get("/api/v1/nodes/atlas"))
    assert (shown["liveness"], shown["sample"]["cpu_percent"]) == ("ready", 12.5)
    assert (await ok(await http.get(f"/api/v1/replicas/{SPEC.replica}")))["state"] == "ready"
    (model,) = await ok(await http.get("/api/v1/models"))
    assert (model["ready"], model["wanted"]) == (1, 1)
    (candidate,) = await ok(await http.get("/api/v1/explain/tiny?profile=default"))
    assert candidate["node"] == "atlas"
    assert (await http.get("/api/v1/explain/tiny?profile=nope")).status_code == 404
    listed = await http.get("/api/v1/list?topics=routes,nodes,replicas,samples")
    assert plane.key_of(SPEC.replica) not in listed.text
    assert listed.json()["topics"]["routes"][0]["endpoints"][0]["keyed"] is True
    status = await ok(await http.get("/api/v1/status"))
    assert status["models"] == [
        {"name": "tiny", "wanted": 1, "ready": 1, "reason": None, "note": None}
    ]
    text = (await http.get("/metrics")).text
    found = {metric.name: metric for metric in text_string_to_metric_families(text)}
    assert found["llmgw_node_cpu_utilization_percent"].samples[0].value == 12.5
    assert found["llmgw_replicas_serving"].samples[0].labels == {"model": "tiny"}


async def test_changes_lie_in_the_store_with_who_made_them(
    plane: Plane, http: httpx.AsyncClient
) -> None:
    register(plane)
    await plane.store.put_node(StoredNode(id="atlas", first_seen=1.0, last_seen=1.0))
    await ok(await http.put("/api/v1/models/tiny", json=MODEL, headers=WHATEVER))
    await ok(await http.put("/api/v1/settings", json={"path": "link.lost_after", "value": 90}))
    key = await ok(await http.post("/api/v1/keys", json={"name": "batch"}))
    await ok(await http.post("/api/v1/join-tokens", json={"role": "node", "subject": "borea"}))
    await ok(await http.post("/api/v1/nodes/atlas/wish", json={"wish": "cordoned"}))
    await ok(await http.delete(f"/api/v1/keys/{key['id']}"))
    await ok(await http.delete("/api/v1/models/tiny"))
    await ok(await http.delete("/api/v1/nodes/atlas"))
    audit = await ok(await http.get("/api/v1/audit?limit=1000"))
    assert {entry["actor"] for entry in audit} == {"anna", "setup"}
    assert len([entry for entry in audit if entry["actor"] == "anna"]) >= 8
    assert key["key"] not in str(audit)
    assert await plane.store.verify_audit() is None
    history = await ok(await http.get("/api/v1/settings-history?path=link"))
    assert [(one["path"], one["actor"]) for one in history] == [("link.lost_after", "anna")]
    assert [one["version"] for one in await ok(await http.get("/api/v1/model-history/tiny"))]


async def test_what_the_next_pass_would_do_is_told_and_not_done(
    plane: Plane, http: httpx.AsyncClient
) -> None:
    await ok(await http.put("/api/v1/models/tiny", json=MODEL, headers=WHATEVER))
    register(plane)
    assert plane.leadership.settled((), 0.0)
    assert await ok(await http.get("/api/v1/plan")) is None
    plan = await ok(await http.get("/api/v1/plan?next=true"))
    assert (plan["number"], [step["kind"] for step in plan["steps"]]) == (1, ["start"])
    stopping = await ok(await http.get("/api/v1/plan?next=true&stopped=true"))
    (step,) = stopping["steps"]
    assert (step["kind"], step["replica"]) == ("drain", SPEC.replica)
    assert step["words"] == "the cluster is stopped"
    assert [one.state for one in plane.fleet.replicas()] == ["ready"]
    assert await ok(await http.get("/api/v1/plan")) is None
    again = await ok(await http.get("/api/v1/plan?next=true&stopped=true"))
    assert again == stopping


async def test_a_loss_that_is_accepted_is_a_setting_with_its_actor(
    plane: Plane, http: httpx.AsyncClient
) -> None:
    assert await ok(await http.post("/api/v1/mass-loss/accept")) is None
    (change,) = await ok(await http.get("/api/v1/settings-history"))
    assert change["path"] == "reconcile.losses_accepted_before"
