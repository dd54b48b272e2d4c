"""Two hundred agents, each with a certificate of its own, against one control plane."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmgw.base.places import Places
from llmgw.local import demo_model
from llmgw.local.cluster import Layout, LocalCluster, kill
from llmgw.model.settings import Settings
from tests.crowd import READY_WITHIN, StartedCrowd
from tests.fakes.recorded_fleet import fleet
from tests.flow.tui.terminals import Terminal
from tests.real.cluster.watching import pid_of, ready, replicas
from tests.waiting import wait_for

pytestmark = pytest.mark.real

COUNT, REPLICAS = 200, 50
SETTLING = Settings().reconcile.settling
OUTAGE = 12.0
"""Seconds without a control plane in which the agents' waits grow to nearly their longest."""
PAGE_DOWN, PAGE_UP = "\x1b[6~", "\x1b[5~"
NODE = re.compile(r"\b(?:cpu|h100|mig|titan|p100|spark)-\d{4}\b")

Say = Callable[[str], None]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], record_property: Callable[..., None]) -> Say:
    """Return what puts a measurement on the terminal and into the report."""

    def speak(words: str) -> None:
        record_property("measured", words)
        with capsys.disabled():
            print(f"\n  {words}", end="", flush=True)

    return speak


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartedCrowd]:
    places = Places.find("agent", environ=os.environ, root=False)
    layout = Layout(
        directory=str(tmp_path_factory.mktemp("crowd") / "cluster"),
        weights=str(places.weights),
        engines=str(places.engines),
    )
    cluster = LocalCluster(layout, os.environ)
    try:
        cluster.start_server()
        yield StartedCrowd(cluster, COUNT)
    finally:
        cluster.end()


def placed(cluster: LocalCluster, model: str) -> dict[str, tuple[str, int]]:
    """Return node and pid of each ready replica."""
    found = [one for one in replicas(cluster, model) if one["state"] == "ready"]
    return {one["id"]: (one["shards"][0]["node"], pid_of(one)) for one in found}


def used(crowd: StartedCrowd) -> str:
    server, agents = crowd.spent()
    return f"control plane {server}; agents {agents}"


def test_all_join_with_a_token_and_are_ready_within_a_minute(crowd: StartedCrowd, say: Say) -> None:
    took = crowd.wait_ready()
    say(f"{COUNT} agents joined and ready after {took:.1f} s: {used(crowd)}")
    assert time.monotonic() - crowd.began < READY_WITHIN
    nodes = {node["id"]: node for node in crowd.cluster.client().get("/nodes")}
    assert {node["certificate_ends"] is not None for node in nodes.values()} == {True}
    for one in fleet(COUNT):
        inventory = nodes[one.node]["inventory"]
        assert len(inventory["devices"]) == len(one.inventory.devices or ())
        assert len(inventory["engines"]) == len(one.engines)


def test_the_console_scrolls_through_all_of_them(crowd: StartedCrowd, tmp_path: Path) -> None:
    crowd.wait_ready()
    environ = {
        "LLMGW_SERVER": f"http://{crowd.cluster.admin}",
        "LLMGW_TOKEN_FILE": str(crowd.cluster.token_file),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    argv = [sys.executable, "-m", "llmgw", "console"]
    with Terminal(argv, columns=120, lines=40, environ=environ) as terminal:

        def shown() -> set[str]:
            return set(NODE.findall(terminal.text()))

        terminal.wait_text("live", "Overview")
        terminal.send("2")
        terminal.wait_text("llmgw ctl nodes", f"1/{COUNT}", "cpu-0000")
        terminal.settle()
        first = seen = shown()
        pages = 1
        while seen != crowd.nodes:
            assert pages < COUNT // len(first) + 2, f"never seen: {sorted(crowd.nodes - seen)}"
            terminal.send(PAGE_DOWN)
            terminal.wait_for(lambda seen=seen: shown() - seen, f"page {pages + 1}")  # type: ignore[misc]
            terminal.settle(0.1)
            seen = seen | shown()
            pages += 1
        assert not first & shown()
        terminal.send(PAGE_UP * pages)
        terminal.wait_for(lambda: shown() == first, "the first page again")
        terminal.send("q")
        assert terminal.exit_code() == 0


def test_after_a_kill_of_the_control_plane_all_are_ready_within_a_minute_and_nothing_is_told(
    crowd: StartedCrowd, say: Say
) -> None:
    cluster = crowd.cluster
    crowd.wait_ready()
    model = demo_model.simulated(replicas=REPLICAS)
    cluster.put_model(model)
    ready(cluster, model.name, REPLICAS)
    before = placed(cluster, model.name)
    assert len({node for node, _ in before.values()}) > REPLICAS // 2, "they are spread"
    told = wait_for(lambda: t if (t := crowd.told()).shards == {"ready": REPLICAS} else None)
    assert (told.starts, told.stops) == (REPLICAS, 0)

    kill(crowd.server)
    killed = time.monotonic()
    wait_for(lambda: crowd.told().welcome == 0, what="every agent notices")
    wait_for(lambda: time.monotonic() - killed > OUTAGE, 2 * OUTAGE)
    restarted = time.monotonic()
    cluster.start_server()
    crowd.wait_ready()
    took = time.monotonic() - restarted
    say(f"{COUNT} agents ready again {took:.1f} s after the restart: {used(crowd)}")
    assert took < READY_WITHIN
    assert placed(cluster, model.name) == before
    # The streams are new ones: each agent opened one more.
    wait_for(lambda: crowd.told().welcome == COUNT, what="every agent knows that it is welcome")
    assert crowd.told().opened >= told.opened + COUNT

    wait_for(lambda: time.monotonic() - restarted > 2 * SETTLING, 3 * SETTLING)
    assert placed(cluster, model.name) == before
    now = crowd.told()
    assert (now.starts, now.stops, now.shards) == (REPLICAS, 0, {"ready": REPLICAS})
    say(f"two settling periods later: {used(crowd)}")
