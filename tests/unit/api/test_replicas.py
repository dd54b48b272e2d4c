"""Replicas as people are shown them: their nodes' silence, and how far those are that drain."""

from typing import Any

import pytest

from llmgw.control.api.app import build
from llmgw.control.plane import Plane
from llmgw.model.gateway import LoadReport, ReplicaLoad
from llmgw.model.keys import READ
from tests.fakes.clock import FakeClock, settle
from tests.fakes.planes import cpu_model, make_plane, pass_time, running
from tests.fakes.scripted_agent import FakeAgent
from tests.unit.api.asking import client


@pytest.fixture
def plane(clock: FakeClock) -> Plane:
    return make_plane(clock)


class Reader:
    """Somebody with a token who reads."""

    def __init__(self, plane: Plane, token: str) -> None:
        self.http = client(build(plane), token)

    async def get(self, path: str) -> Any:
        answer = await self.http.get(f"/api/v1{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()


async def reader(plane: Plane) -> Reader:
    _, text = await plane.tokens.make(READ, "me", actor="me")
    return Reader(plane, text)


@pytest.mark.parametrize(
    ("silence", "away", "ready", "problem"),
    [(20, "unreachable", 1, "the node is unreachable"), (70, "lost", 0, "the node is lost")],
)
async def test_a_replica_of_a_silent_node_is_shown_so_everywhere(
    plane: Plane, clock: FakeClock, silence: float, away: str, ready: int, problem: str
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(), None, actor="me")
        await settle()
        (name,) = (one.id for one in plane.fleet.replicas())
        asks = await reader(plane)
        await agent.sever()
        await clock.advance(silence)
        (shown,) = await asks.get("/replicas")
        words = f"n1 is {away}; last known as ready"
        assert (shown["state"], shown["away"], shown["away_words"]) == ("ready", away, words)
        assert await asks.get(f"/replicas/{name}") == shown
        status = await asks.get("/status")
        assert status["replicas"] == {away: 1}
        (model,) = status["models"]
        assert (model["ready"], model["note"]) == (ready, f"{name}: {words}")
        (listed,) = await asks.get("/models")
        one = await asks.get("/models/tiny")
        for found in (listed, one):
            assert (found["ready"], found["note"]) == (ready, f"{name}: {words}")
        found = [one["words"] for one in status["problems"] if one["subject"] == "n1"]
        assert found == [f"{problem}; it has {name}"]
        await agent.connect(plane.agents)
        (shown,) = await asks.get("/replicas")
        assert (shown["away"], shown["away_words"]) == (None, None)
        assert (await asks.get("/status"))["replicas"] == {"ready": 1}


async def test_a_replica_that_drains_says_what_is_left_and_until_when(
    plane: Plane, clock: FakeClock
) -> None:
    async with running(plane):
        agent = FakeAgent("n1")
        await agent.connect(plane.agents)
        await plane.catalog.put(cpu_model(), None, actor="me")
        await settle()
        (name,) = (one.id for one in plane.fleet.replicas())
        asks = await reader(plane)
        (shown,) = await asks.get("/replicas")
        assert shown["draining"] is None
        busy = (ReplicaLoad(replica=name, in_flight=3),)
        plane.loads.take(LoadReport(gateway="gw-1", replicas=busy))
        began = clock.now()
        await plane.catalog.put(cpu_model(replicas=0), None, actor="me")
        await pass_time(clock, 60, [agent])
        (shown,) = await asks.get("/replicas")
        draining = shown["draining"]
        assert (shown["state"], draining["left"], draining["told"]) == ("draining", 3, False)
        assert draining["until"] == pytest.approx(began + 600, abs=1)
        (model,) = await asks.get("/models")
        assert model["note"].startswith(f"{name} is draining: 3 replies left, stopped in ")
        plane.loads.unknown("gw-2")
        (shown,) = await asks.get("/replicas")
        assert shown["draining"]["left"] is None
