"""The fleet is the truth about what runs: what happens when the control plane is killed."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from llmgw.local import demo_model
from llmgw.local.cluster import LocalCluster, kill
from llmgw.store.sqlite import SqliteStore
from tests.cluster import FAST
from tests.real.cluster.conftest import Make
from tests.real.cluster.watching import (
    Asking,
    alive,
    commands,
    group_of,
    listeners,
    liveness,
    pid_of,
    ready,
    replicas,
)
from tests.waiting import wait_for

pytestmark = pytest.mark.real

SETTLING = float(FAST["reconcile.settling"])


def test_a_killed_control_plane_is_missed_by_nobody_and_starts_and_stops_nothing(
    make_cluster: Make,
) -> None:
    cluster = make_cluster(log_level="debug")
    cluster.start(agents=2)
    model = demo_model.simulated(replicas=2, arguments=("--tokens-per-second", "20"))
    cluster.put_model(model)
    before = {r["id"]: pid_of(r) for r in ready(cluster, model.name, 2)}
    user = Asking(cluster, cluster.make_key("user"), model.name)
    wait_for(user.works)
    gateway = cluster.owner.services["gateway"]
    stream = user.stream(tokens=160)
    stream.begun()
    sent = {node: commands(cluster, node) for node in cluster.nodes}
    assert sum(len(lines) for lines in sent.values()) == 2, "an agent no longer logs its commands"

    kill(cluster.owner.services["server"])
    for _ in range(5):
        assert user.works(), "a known key is no longer served while the control plane is away"
    assert stream.finished()
    assert sum(1 for event in stream.events if event.get("choices")) >= 150

    cluster.start_server()
    restarted = time.monotonic()
    wait_for(lambda: all(liveness(cluster, n) == "ready" for n in cluster.nodes), 30)
    assert {r["id"]: pid_of(r) for r in ready(cluster, model.name, 2)} == before
    wait_for(lambda: time.monotonic() - restarted > 2 * SETTLING, 4 * SETTLING)
    assert {node: commands(cluster, node) for node in cluster.nodes} == sent
    assert {r["id"]: pid_of(r) for r in replicas(cluster, model.name)} == before
    assert gateway.alive()
    assert {group_of(pid) for pid in listeners(cluster.gateway_port or 0)} == {gateway.pid}
    assert user.works()


async def _change_store(path: Path, name: str) -> None:
    store = SqliteStore(path)
    await store.open("test")
    await store.remove_model(name, actor="test", at=time.time())
    await store.close()


def _store_file(cluster: LocalCluster) -> Path:
    return cluster.server_state / "store.sqlite"


def test_a_model_that_left_the_catalog_meanwhile_is_stopped(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.start(agents=1)
    stays, goes = demo_model.simulated("stays"), demo_model.simulated("goes")
    for model in (stays, goes):
        cluster.put_model(model)
    kept = pid_of(ready(cluster, "stays")[0])
    gone = pid_of(ready(cluster, "goes")[0])
    kill(cluster.owner.services["server"])
    asyncio.run(_change_store(_store_file(cluster), "goes"))
    assert alive(gone), "an engine outlives its control plane"
    cluster.start_server()
    wait_for(lambda: not alive(gone), 30, what="the replica of the removed model is stopped")
    assert alive(kept)
    wait_for(lambda: replicas(cluster, "goes") == [], what="nothing is left of it")


def test_a_second_control_plane_on_the_same_store_is_refused_in_one_line(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    cluster.start_server()
    argv = [
        *("server", "--state-dir", str(cluster.server_state)),
        *("--admin", "127.0.0.1:0", "--link", "127.0.0.1:0"),
    ]
    done = _llmgw(cluster, argv)
    assert done.returncode == 4, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("llmgw:")]
    assert len(said) == 1
    assert "holds this store" in said[0]
    assert str(cluster.server_state) in said[0]
    assert "Traceback" not in done.stderr
    assert cluster.owner.services["server"].alive()


def test_a_port_in_use_is_one_line_that_names_it(make_cluster: Make, tmp_path: Path) -> None:
    cluster = make_cluster()
    cluster.start_server()
    argv = [
        *("server", "--state-dir", str(tmp_path / "other")),
        *("--admin", str(cluster.admin), "--link", "127.0.0.1:0"),
    ]
    done = _llmgw(cluster, argv)
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if line.startswith("llmgw:")]
    assert len(said) == 1
    assert str(cluster.admin).rpartition(":")[2] in said[0]
    assert "Traceback" not in done.stderr


def _llmgw(cluster: LocalCluster, argv: list[str]) -> Any:
    import subprocess
    import sys

    return subprocess.run(
        [sys.executable, "-m", "llmgw", *argv],
        env=cluster.owner.environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
