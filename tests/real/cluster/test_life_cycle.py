"""What becomes of replicas, with real processes: drained, scaled, pre-empted, restarted, ended."""

import http.client
import os
import signal
from typing import Any

import msgspec
import pytest

from llmgw.local import demo_model
from llmgw.local.cluster import LocalCluster
from llmgw.model.catalog import Model, Scaling
from tests.real.cluster.conftest import Make
from tests.real.cluster.watching import Asking, alive, ctl, llmgw, pid_of, ready, replicas
from tests.waiting import wait_for

pytestmark = pytest.mark.real

SLOW = ("--tokens-per-second", "20")


def changed(model: Model, **fields: Any) -> Model:
    """Return a model with another profile."""
    profile = msgspec.structs.replace(model.profiles[0], **fields)
    return msgspec.structs.replace(model, profiles=(profile,))


def route(cluster: LocalCluster, name: str) -> dict[str, Any]:
    models: list[dict[str, Any]] = cluster.client().get("/models")
    return next(one for one in models if one["model"]["name"] == name)


def another(cluster: LocalCluster, name: str, gone: int) -> int:
    """Wait until another process than that one serves a model; return it."""

    def found() -> list[int]:
        pids = [pid_of(r) for r in replicas(cluster, name) if r["state"] == "ready"]
        return [pid for pid in pids if pid != gone]

    return int(cluster.wait(found, 30, "another one is ready")[0])


def test_a_stream_of_eight_seconds_ends_before_its_replica_is_stopped(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.start(agents=1)
    model = demo_model.simulated(arguments=SLOW)
    cluster.put_model(model)
    pid = pid_of(ready(cluster, model.name)[0])
    user = Asking(cluster, cluster.make_key("user"), model.name)
    wait_for(user.works)
    stream = user.stream(tokens=160)
    stream.begun()
    cluster.put_model(changed(model, replicas=0))
    wait_for(lambda: [r["state"] for r in replicas(cluster)] == ["draining"], what="it drains")
    wait_for(lambda: not user.works(), what="a replica that drains gets no new requests")
    assert alive(pid)
    assert stream.finished()
    assert sum(1 for event in stream.events if event.get("choices")) >= 150
    wait_for(lambda: not alive(pid), 20, what="the replica is stopped once it is idle")


def test_a_stream_of_twenty_seconds_ends_before_its_node_is_drained(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.start(agents=2)
    model = demo_model.simulated(arguments=SLOW)
    cluster.put_model(model)
    (old,) = ready(cluster, model.name)
    node = old["shards"][0]["node"]
    user = Asking(cluster, cluster.make_key("user"), model.name)
    wait_for(user.works)
    stream = user.stream(tokens=400)
    stream.begun()
    dry = llmgw(cluster, "ctl", "node", "drain", node, "--dry-run").stderr
    assert f"1 replica will move (1 reply in flight): {old['id']} on {node}" in dry
    ctl(cluster, "node", "drain", node, "--yes")
    new = another(cluster, model.name, pid_of(old))
    wait_for(lambda: {r["state"] for r in replicas(cluster)} == {"ready", "draining"})
    assert user.works()
    assert alive(pid_of(old))
    assert stream.finished()
    assert sum(1 for event in stream.events if event.get("choices")) >= 390
    wait_for(lambda: not alive(pid_of(old)), 20, what="the replica is stopped once it is idle")
    wait_for(lambda: [pid_of(r) for r in replicas(cluster)] == [new])


def test_a_held_request_starts_a_model_and_idleness_stops_it(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.start(agents=1)
    rests = changed(
        demo_model.simulated(),
        replicas=0,
        max_replicas=1,
        scaling=Scaling(idle_stop=3.0),
        arguments=("--load-time", "2"),
    )
    cluster.put_model(rests)
    user = Asking(cluster, cluster.make_key("user"), rests.name)
    wait_for(lambda: "a request starts it" in (route(cluster, rests.name)["reason"] or ""))
    assert replicas(cluster) == []
    status, _ = user.ask(timeout=40.0)
    assert status == http.client.OK
    (first,) = ready(cluster, rests.name)
    wait_for(lambda: replicas(cluster) == [], 30, what="the model is stopped while idle")
    assert not alive(pid_of(first))
    assert user.ask(timeout=40.0)[0] == http.client.OK


def test_a_model_is_scaled_to_three_to_none_and_back_by_a_request(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.start(agents=3)
    rule = Scaling(down_window=1.0)
    model = changed(demo_model.simulated(), scaling=rule, arguments=("--load-time", "2"))
    cluster.put_model(model)
    ready(cluster, model.name)
    user = Asking(cluster, cluster.make_key("user"), model.name)
    wait_for(user.works)
    scale = ("model", "scale", model.name)
    ctl(cluster, *scale, "3")
    three = ready(cluster, model.name, 3)
    assert {r["shards"][0]["node"] for r in three} == set(cluster.nodes)
    assert (
        "2 replicas will end (nothing in flight)"
        in llmgw(cluster, "ctl", *scale, "0", "--max", "1", "--dry-run").stderr
    )
    ctl(cluster, *scale, "0", "--max", "1", "--yes")
    wait_for(lambda: replicas(cluster) == [], 30, what="nothing asks for it, and nothing runs")
    assert not any(alive(pid_of(one)) for one in three)
    assert "a request starts it" in llmgw(cluster, "status").stdout
    assert user.ask(timeout=40.0)[0] == http.client.OK
    (only,) = ready(cluster, model.name)
    ctl(cluster, *scale, "1")
    wait_for(user.works)
    assert [pid_of(r) for r in replicas(cluster)] == [pid_of(only)]


def test_replicas_follow_the_load_up_and_down(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.start(agents=1)
    rule = Scaling(in_flight=2, window=1.0, down_window=3.0)
    model = changed(demo_model.simulated(), max_replicas=3, scaling=rule, arguments=SLOW)
    cluster.put_model(model)
    ready(cluster, model.name)
    user = Asking(cluster, cluster.make_key("user"), model.name)
    wait_for(user.works)
    streams = [user.stream(tokens=200) for _ in range(6)]
    for one in streams:
        one.begun()
    ready(cluster, model.name, 3, timeout=30.0)
    assert all(one.finished() for one in streams)
    wait_for(lambda: len(replicas(cluster)) == 1, 40, what="two of them are not needed any more")


def test_a_higher_priority_has_a_lower_one_drained(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.start(agents=1)
    host = cluster.client().get(f"/nodes/{cluster.nodes[0]}")["inventory"]["host"]
    most = host["memory_bytes"] / 1e9 * 0.6
    batch = changed(demo_model.simulated("batch"), min_memory_gb=most, arguments=SLOW)
    cluster.put_model(batch)
    pid = pid_of(ready(cluster, "batch")[0])
    user = Asking(cluster, cluster.make_key("user"), "batch")
    wait_for(user.works)
    stream = user.stream(tokens=120)
    stream.begun()
    chat = changed(demo_model.simulated("chat"), min_memory_gb=most, priority=5)
    cluster.put_model(chat)
    wait_for(lambda: [r["state"] for r in replicas(cluster, "batch")] == ["draining"])
    assert stream.finished()
    ready(cluster, "chat", timeout=30.0)
    assert not alive(pid)
    assert "can't place batch" in ctl(cluster, "plan")


def test_a_replica_that_is_killed_is_restarted_at_once_and_then_with_waits(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    cluster.start(agents=1)
    model = demo_model.simulated()
    cluster.put_model(model)
    before = pid_of(ready(cluster, model.name)[0])
    for _ in range(2):
        os.kill(before, signal.SIGKILL)
        before = another(cluster, model.name, before)
    failed = [r for r in replicas(cluster, model.name) if r["state"] == "failed"]
    assert len(failed) == 2
    assert all(r["shards"][0]["last_lines"] for r in failed)
    told = [e["words"] for e in cluster.client().get("/events") if "failed on" in e["words"]]
    assert any("the 2. time there" in words for words in told)


def test_an_engine_that_crashes_again_and_again_waits_and_what_it_said_last_is_kept(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    cluster.start(agents=1)
    model = demo_model.simulated("crashes", arguments=("--fault", "crash-after=3"))
    cluster.put_model(model)
    user = Asking(cluster, cluster.make_key("user"), model.name)
    ready(cluster, model.name)
    failed = wait_for(lambda: crashed(cluster, user, 3), 40, what="its engine ends three times")
    waits = "node-1: it ended there 3 times by itself (the engine was ended by signal SIGABRT); "
    waits += "waits 10s before the next try"
    for words in (["status"], ["ctl", "plan"], ["ctl", "explain", "crashes"], ["ctl", "models"]):
        assert waits in llmgw(cluster, *words).stdout, words
    for words in (["replicas"], ["node", "node-1"]):
        assert "the engine was ended by signal SIGABRT" in ctl(cluster, *words), words
    assert "crashes, as it was told" in ctl(cluster, "replicas", "-o", "yaml")
    for one in failed:
        assert "crashes, as it was told" in ctl(cluster, "logs", "node-1", "--source", f"{one}/0")
    status, body = user.ask()
    assert status == http.client.SERVICE_UNAVAILABLE
    assert waits in body["error"]["message"]


def crashed(cluster: LocalCluster, user: Asking, times: int) -> list[str]:
    """Ask once, and return the replicas that failed, once there are so many."""
    user.ask(tokens=10)
    found = [r["id"] for r in replicas(cluster) if r["state"] == "failed"]
    return found if len(found) >= times else []


def test_an_engine_that_hangs_while_a_request_waits_is_replaced(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.start_server()
    cluster.put_settings(cluster.layout.settings)
    cluster.start_gateway()
    cluster.start_agent("node-1", stuck_after=2.0)
    model = demo_model.simulated("hangs", arguments=("--fault", "hang-after=2"))
    cluster.put_model(model)
    first = pid_of(ready(cluster, model.name)[0])
    user = Asking(cluster, cluster.make_key("user"), model.name)
    assert user.ask(tokens=1)[0] == http.client.OK
    stream = user.stream(tokens=20)
    stream.begun(2)
    second = another(cluster, model.name, first)
    assert alive(second)
    assert not alive(first)
    assert not stream.finished()
    why = "no token moved for 2.0s (requests running: 1, waiting: 0)"
    told = [e["words"] for e in cluster.client().get("/events")]
    assert sum(why in words for words in told) == 2, "that it is stuck, and that it is stopped"
    (kept,) = (r for r in replicas(cluster) if r["state"] == "failed")
    assert kept["reason"] == why
    assert any("hangs" in line for line in kept["shards"][0]["last_lines"])
    assert "simulated" in ctl(cluster, "logs", "node-1", "--source", f"{kept['id']}/0")


def test_stopping_the_system_ends_every_engine_and_starting_it_serves_again(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    cluster.start(agents=1)
    model = demo_model.simulated()
    cluster.put_model(model)
    pid = pid_of(ready(cluster, model.name)[0])
    user = Asking(cluster, cluster.make_key("user"), model.name)
    wait_for(user.works)
    dry = llmgw(cluster, "stop", "--dry-run").stderr
    assert "1 replica will end" in dry
    assert user.works()
    llmgw(cluster, "stop", "--yes")

    def refused() -> bool:
        status, body = user.ask()
        return status == 503 and body["error"]["code"] == "system_stopped"

    wait_for(refused, what="users are told that it is stopped")
    wait_for(lambda: not alive(pid), 20, what="the engine ends")
    assert "stopped; `llmgw start` starts it" in ctl(cluster, "status")
    wait_for(lambda: replicas(cluster) == [], 5, what="its node says that it is gone")
    llmgw(cluster, "start")
    ready(cluster, model.name)
    wait_for(user.works)
