"""Engines outlive agents: what happens when an agent is killed, stopped, or comes back."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from llmgw.local import demo_model
from llmgw.local.cluster import LocalCluster, kill
from tests.real.cluster.conftest import Make
from tests.real.cluster.watching import Asking, alive, liveness, pid_of, ready, replicas
from tests.waiting import wait_for

pytestmark = pytest.mark.real


def started(make: Make, **more: object) -> tuple[LocalCluster, str]:
    cluster = make(**more)
    cluster.start(agents=1)
    model = demo_model.simulated()
    cluster.put_model(model)
    return cluster, model.name


def test_a_killed_agent_s_engine_goes_on_answering_and_is_adopted(make_cluster: Make) -> None:
    cluster, model = started(make_cluster)
    replica = ready(cluster, model)[0]
    user = Asking(cluster, cluster.make_key("user"), model)
    wait_for(user.works)
    kill(cluster.owner.services["node-1"])
    begin = time.monotonic()
    seen = []
    while liveness(cluster, "node-1") != "lost":
        seen.append(liveness(cluster, "node-1"))
        assert user.works(), f"the engine no longer answers while the node is {seen[-1]}"
        assert time.monotonic() - begin < 20
    assert "unreachable" in seen
    assert user.works(), "an engine of a lost node serves where nothing else does"
    cluster.start_agent("node-1")
    wait_for(lambda: liveness(cluster, "node-1") == "ready", 20)
    back = ready(cluster, model)[0]
    assert back["id"] == replica["id"]
    assert pid_of(back) == pid_of(replica)
    assert back["shards"][0]["adopted"] is True
    assert user.works()


def _shard_files(cluster: LocalCluster) -> list[Path]:
    return sorted((cluster.agent_state("node-1") / "shards").glob("*/*.json"))


def test_a_pid_that_another_process_has_now_is_neither_adopted_nor_killed(
    make_cluster: Make,
) -> None:
    cluster, model = started(make_cluster)
    replica = ready(cluster, model)[0]
    old = pid_of(replica)
    kill(cluster.owner.services["node-1"])
    os.killpg(old, signal.SIGKILL)
    wait_for(lambda: not alive(old))
    with subprocess.Popen(["sleep", "300"]) as other:
        try:
            changed = 0
            for file in _shard_files(cluster):
                text = file.read_text()
                if str(old) in text:
                    file.write_text(text.replace(str(old), str(other.pid)))
                    changed += 1
            assert changed, "the test no longer finds the pid on disk"
            cluster.start_agent("node-1")
            replaced = wait_for(
                lambda: [r for r in replicas(cluster, model) if r["state"] == "ready"], 30
            )
            assert pid_of(replaced[0]) != other.pid
            assert other.poll() is None, "another's process was killed"
        finally:
            other.kill()


def test_an_engine_without_a_spec_is_killed_and_another_agent_s_engine_lives(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    cluster.start(agents=2)
    model = demo_model.simulated(replicas=2)
    cluster.put_model(model)
    found = {r["shards"][0]["node"]: r for r in ready(cluster, model.name, 2)}
    assert set(found) == {"node-1", "node-2"}
    mine, other = pid_of(found["node-1"]), pid_of(found["node-2"])
    kill(cluster.owner.services["node-1"])
    for file in _shard_files(cluster):
        file.unlink()
    cluster.start_agent("node-1")
    wait_for(lambda: not alive(mine), 20, what="the engine that nobody can describe is killed")
    assert alive(other)
    ready(cluster, model.name, 2)
    assert alive(other)


def test_a_stopped_agent_is_noticed_within_three_intervals_and_a_second(
    make_cluster: Make,
) -> None:
    cluster, model = started(make_cluster)
    ready(cluster, model)
    agent = cluster.owner.services["node-1"]
    try:
        os.kill(agent.pid, signal.SIGSTOP)
        begin = time.monotonic()
        wait_for(lambda: liveness(cluster, "node-1") == "unreachable", 10)
        # One interval may pass before the stop, and asking takes its time.
        assert time.monotonic() - begin <= 3 * 1.0 + 1.0 + 0.3
    finally:
        os.kill(agent.pid, signal.SIGCONT)
    wait_for(lambda: liveness(cluster, "node-1") == "ready", 20)
    assert len(ready(cluster, model)) == 1


def test_with_the_default_intervals_a_killed_agent_is_unreachable_then_lost(
    make_cluster: Make,
) -> None:
    cluster, model = started(make_cluster, settings={"reconcile.settling": 0.0})
    ready(cluster, model)
    kill(cluster.owner.services["node-1"])
    begin = time.monotonic()
    wait_for(lambda: liveness(cluster, "node-1") == "unreachable", 17)
    assert time.monotonic() - begin <= 16.5
    wait_for(lambda: liveness(cluster, "node-1") == "lost", 62)
    assert 50 <= time.monotonic() - begin <= 62


def test_an_agent_that_is_asked_to_end_leaves_its_engine_running(make_cluster: Make) -> None:
    cluster, model = started(make_cluster)
    replica = ready(cluster, model)[0]
    agent = cluster.owner.services["node-1"]
    agent.process.terminate()
    assert agent.process.wait(15) == 0
    assert alive(pid_of(replica))
    cluster.start_agent("node-1")
    wait_for(lambda: liveness(cluster, "node-1") == "ready", 20)
    assert pid_of(ready(cluster, model)[0]) == pid_of(replica)


def test_removing_a_node_denies_its_certificate_and_cuts_its_stream(make_cluster: Make) -> None:
    cluster, model = started(make_cluster)
    ready(cluster, model)
    cluster.client().delete("/nodes/node-1")
    wait_for(lambda: liveness(cluster, "node-1") is None, 10)
    log = cluster.owner.services["node-1"].log
    wait_for(lambda: "denied" in log.read_text() or "removed" in log.read_text(), 15)
    assert liveness(cluster, "node-1") is None
    audit = cluster.client().get("/audit")
    assert any("node-1" in json.dumps(entry) for entry in audit)
