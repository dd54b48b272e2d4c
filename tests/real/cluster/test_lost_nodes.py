"""What becomes of replicas whose nodes are lost and come back, alone or many at once."""

import ctypes.util
import os
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llmgw.local import demo_model
from llmgw.local.cluster import LocalCluster, kill
from llmgw.model.catalog import BETTER, NEWER, ORIGINAL, REPLACE, Disconnect, Model
from tests.cluster import FAST
from tests.fakes.nvidia_smi import H100, StubNvidiaSmi
from tests.real.cluster.conftest import Make
from tests.real.cluster.watching import (
    Asking,
    Engines,
    alive,
    commands,
    ctl,
    liveness,
    llmgw,
    pid_of,
    ready,
    replicas,
)
from tests.waiting import wait_for

pytestmark = pytest.mark.real

INTERVAL = float(FAST["link.heartbeat_interval"])
NODES = 6


def changed(model: Model, **fields: Any) -> Model:
    """Return a model with another profile."""
    profile = msgspec.structs.replace(model.profiles[0], **fields)
    return msgspec.structs.replace(model, profiles=(profile,))


def replaced(model: Model, on_return: str = NEWER, **fields: Any) -> Model:
    """Return a model that is replaced a second after its node is lost."""
    disconnect = Disconnect(policy=REPLACE, after=1.0, on_return=on_return)
    return msgspec.structs.replace(changed(model, **fields), disconnect=disconnect)


def places(cluster: LocalCluster) -> dict[str, tuple[str, int]]:
    """Return node and process of each replica."""
    return {r["id"]: (r["shards"][0]["node"], pid_of(r)) for r in replicas(cluster)}


def serving(cluster: LocalCluster) -> set[str]:
    """Return the nodes whose replica counts as one that answers."""
    states = {n["id"]: n["liveness"] for n in cluster.client().get("/nodes")}
    return {
        node
        for r in replicas(cluster)
        if r["state"] == "ready" and states[node := r["shards"][0]["node"]] == "ready"
    }


def returned(cluster: LocalCluster, nodes: list[str]) -> dict[str, float]:
    """Wait until all nodes are back with their replicas; return how long each replica lagged."""
    ready_at: dict[str, float] = {}
    served_at: dict[str, float] = {}

    def all_back() -> bool:
        found, now = serving(cluster), time.monotonic()
        for node in nodes:
            if liveness(cluster, node) == "ready":
                ready_at.setdefault(node, now)
            if node in found:
                served_at.setdefault(node, now)
        return len(served_at) == len(nodes)

    wait_for(all_back, 30, what="the nodes are back with their replicas")
    return {node: served_at[node] - ready_at[node] for node in nodes}


def plan_number(cluster: LocalCluster) -> int:
    number: int = cluster.client().get("/plan")["number"]
    return number


def metric(cluster: LocalCluster, name: str) -> float:
    """Return a value without labels off the page of metrics."""
    token = cluster.token_file.read_text().strip()
    asked = urllib.request.Request(
        f"http://{cluster.admin}/metrics", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(asked, timeout=10) as answer:
        page = answer.read().decode()
    lines = [line for line in page.splitlines() if line.startswith(f"{name} ")]
    return float(lines[0].split()[1])


def told(cluster: LocalCluster, subject: str) -> list[str]:
    """Return the events of a subject, the oldest first."""
    events = cluster.client().get("/events")
    return [e["words"] for e in sorted(events, key=lambda e: e["id"]) if e["subject"] == subject]


@contextmanager
def stopped(cluster: LocalCluster, nodes: list[str]) -> Iterator[None]:
    """Stop the agents of these nodes within the block."""
    pids = [cluster.owner.services[node].pid for node in nodes]
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_five_of_six_nodes_lost_at_once_are_one_alert_and_nothing_is_placed_anew(
    make_cluster: Make,
) -> None:
    cluster = make_cluster(log_level="debug")
    cluster.start(agents=NODES)
    model = replaced(demo_model.simulated(replicas=NODES))
    cluster.put_model(model)
    ready(cluster, model.name, NODES)
    before = places(cluster)
    assert Counter(node for node, _ in before.values()) == Counter(cluster.nodes)
    sent = {node: commands(cluster, node) for node in cluster.nodes}
    user = Asking(cluster, cluster.make_key("user"), model.name)
    wait_for(user.works)
    gone = cluster.nodes[1:]
    halted, killed = gone[:3], gone[3:]

    with stopped(cluster, halted):
        for node in killed:
            kill(cluster.owner.services[node])
        wait_for(lambda: all(liveness(cluster, node) == "lost" for node in gone), 20)
        wait_for(lambda: metric(cluster, "llmgw_mass_loss_nodes") == len(gone))
        (alert,) = told(cluster, "mass loss")
        assert alert.startswith("5 of 6 nodes were lost within a few seconds")
        problems = [line for line in ctl(cluster, "status").splitlines() if line.startswith("!")]
        assert len(problems) == 1
        assert "5 of 6 nodes were lost" in problems[0]
        dry = llmgw(cluster, "ctl", "node", "accept-loss", "--dry-run")
        assert "5 of 6 nodes were lost" in dry.stderr
        first = plan_number(cluster)
        wait_for(lambda: plan_number(cluster) >= first + 4, 20, what="passes that could act")
        assert places(cluster) == before
        assert all(alive(pid) for _, pid in before.values())
        assert user.works()
    for node in killed:
        cluster.start_agent(node)

    since = returned(cluster, gone)
    assert all(late <= INTERVAL for late in since.values()), since
    wait_for(lambda: metric(cluster, "llmgw_mass_loss_nodes") == 0)
    assert told(cluster, "mass loss") == [alert, "the mass loss is over"]
    assert {node: commands(cluster, node) for node in cluster.nodes} == sent
    assert places(cluster) == before
    assert user.works()


def cards(place: Path) -> dict[str, str]:
    """Return the environment of an agent whose machine has eight cards, as a recorded tool says."""
    return {"PATH": f"{StubNvidiaSmi(place, H100).bin}:{os.environ['PATH']}"}


@pytest.mark.skipif(
    ctypes.util.find_library("nvidia-ml") is not None,
    reason="agents would ask this machine's own NVIDIA driver",
)
def test_a_node_lost_alone_is_replaced_and_on_return_each_policy_is_kept_to(
    make_cluster: Make, tmp_path: Path
) -> None:
    cluster = make_cluster()
    cluster.start_server()
    cluster.put_settings(FAST)
    cluster.start_gateway()
    first, second = "node-1", "node-2"
    of_first = {"environ": cards(tmp_path / first), "labels": {"rack": "a"}}
    cluster.start_agent(first, **of_first)
    # It fills the first node: that is the better one, by what is left free.
    filler = changed(demo_model.simulated("filler"), gpus=4, node_selector={"rack": "a"})
    models = {
        policy: replaced(demo_model.simulated(policy), policy, gpus=1)
        for policy in (ORIGINAL, NEWER, BETTER)
    }
    for model in (filler, *models.values()):
        cluster.put_model(model)
    originals = {policy: ready(cluster, policy)[0]["id"] for policy in models}
    ready(cluster, "filler")
    cluster.start_agent(second, environ=cards(tmp_path / second))
    wait_for(lambda: liveness(cluster, second) == "ready", 20)

    with Engines(cluster) as engines:
        kill(cluster.owner.services[first])
        for policy in models:
            ready(cluster, policy, 2, timeout=30)
        assert {r["shards"][0]["node"] for r in replicas(cluster, "filler")} == {first}
        # It fits when two of the successors are gone, and not before their processes are.
        cluster.put_model(changed(demo_model.simulated("waits"), gpus=7))
        wait_for(lambda: "can't place waits" in ctl(cluster, "plan"))
        cluster.start_agent(first, **of_first)
        wait_for(
            lambda: all(len(replicas(cluster, policy)) == 1 for policy in models),
            30,
            what="one of each pair is stopped",
        )
        (waited,) = ready(cluster, "waits")
    stays = {policy: replicas(cluster, policy)[0] for policy in models}
    where = {policy: r["shards"][0]["node"] for policy, r in stays.items()}
    assert where == {ORIGINAL: first, NEWER: second, BETTER: first}
    assert stays[ORIGINAL]["id"] == originals[ORIGINAL]
    assert stays[NEWER]["id"] != originals[NEWER]
    assert stays[BETTER]["id"] == originals[BETTER]
    assert waited["shards"][0]["node"] == second
    assert engines.looks > 100
    assert len(engines.seen) == 8
    assert engines.clashes == set()
