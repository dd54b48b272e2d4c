"""Whatever happens to nodes, streams, commands and control planes, no device is held twice."""

import asyncio
from collections import Counter

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from llmgw.control.nodes import holds
from llmgw.control.plane import Plane
from llmgw.model.shard import FAILED, READY
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import cpu_model, make_plane, pass_time
from tests.fakes.scripted_agent import FakeAgent

NODES = 2
DEVICES = 2


class House:
    """One control plane, which is replaced when it is killed, and its nodes."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore()
        self.starts = 0
        self.agents = [FakeAgent(f"n{number}", devices=DEVICES) for number in range(NODES)]
        self.plane: Plane
        self.passes: asyncio.Task[None]

    async def start(self) -> None:
        self.starts += 1
        self.plane = make_plane(self.clock, self.store, seed=self.starts)
        await self.plane.open()
        self.passes = asyncio.create_task(self.plane.run())
        await settle()

    async def kill(self) -> None:
        self.passes.cancel()
        await asyncio.gather(self.passes, return_exceptions=True)
        for agent in self.agents:
            if agent.task is not None and not agent.task.done():
                await agent.sever()

    async def step(self, what: str, number: int) -> None:
        agent = self.agents[number % NODES]
        match what:
            case "connect":
                agent.silent = agent.mute = False
                await agent.connect(self.plane.agents)
            case "sever":
                if agent.task is not None and not agent.task.done():
                    await agent.sever()
            case "silence":
                agent.silent = True
            case "mute":
                agent.mute = True
            case "fail":
                self._fail(agent)
            case "want":
                model = cpu_model(replicas=number, gpus=1)
                await self.plane.catalog.put(model, None, actor="me")
            case "restart":
                await self.kill()
                await self.start()
            case _:
                await pass_time(self.clock, 8.0 * number, self.live(), every=2)
        await settle()

    def live(self) -> list[FakeAgent]:
        return [one for one in self.agents if one.task is not None and not one.task.done()]

    def _fail(self, agent: FakeAgent) -> None:
        ready = [one for one in agent.shards.values() if one.state == READY]
        if ready and ready[0].spec is not None and agent in self.live():
            agent.reports(ready[0].spec, FAILED, reason="it died")

    def check(self) -> None:
        for agent in self.agents:
            held = Counter(
                uuid
                for shard in agent.shards.values()
                if holds(shard) and shard.spec is not None
                for uuid in shard.spec.devices
            )
            assert all(count == 1 for count in held.values()), (agent.node, held)
        for room in self.plane.fleet.observed().nodes:
            booked = Counter(uuid for one in room.bookings for uuid in one.devices)
            assert all(count == 1 for count in booked.values()), (room.node.id, booked)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["connect", "sever", "silence", "mute", "fail", "want", "restart", "time", "time"]
        ),
        st.integers(0, 5),
    ),
    max_size=25,
)


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@example(steps=[("connect", 0), ("mute", 0), ("want", 1), ("time", 5), ("time", 5)])
@example(steps=[("connect", 0), ("want", 2), ("mute", 0), ("restart", 0), ("time", 3)])
@given(steps=STEPS)
def test_no_device_is_held_twice_and_the_fleet_converges_when_faults_stop(
    steps: list[tuple[str, int]],
) -> None:
    async def play() -> None:
        house = House()
        await house.start()
        for what, number in steps:
            await house.step(what, number)
            house.check()
        await house.step("want", 3)
        for number in range(NODES):
            await house.step("connect", number)
        await pass_time(house.clock, 400, house.agents)
        house.check()
        ready = [one for one in house.plane.fleet.replicas() if one.state == READY]
        assert len(ready) == 3, [(one.id, one.state) for one in house.plane.fleet.replicas()]
        await house.kill()

    asyncio.run(play())
