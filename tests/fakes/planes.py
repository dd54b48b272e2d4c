"""A whole control plane in memory: the real `Plane` over a store in memory and a clock by hand."""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from llmgw.control.plane import Plane
from llmgw.control.world import World
from llmgw.model.catalog import LLAMACPP, Model, PathSource, Profile
from llmgw.model.check import fingerprint
from llmgw.model.gateway import LoadReport
from llmgw.model.shard import ShardSpec
from llmgw.pki.authority import Authority
from llmgw.store.interface import Store
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.scripted_agent import FakeAgent

GB = 10**9
AUTHORITY = Authority.create("llmgw", 1_800_000_000.0)
"""One for all tests: making one is slow and says nothing."""


def make_plane(
    clock: FakeClock, store: Store | None = None, *, seed: int = 7, server_id: str = "cp-1"
) -> Plane:
    """Return a plane that is not open yet."""
    rng = random.Random(seed)
    return Plane(
        store=store or MemoryStore(),
        authority=AUTHORITY,
        world=World(clock=clock, rng=rng, entropy=rng.randbytes),
        server_id=server_id,
        version="0.1.0",
        addresses=lambda: (f"{server_id}:7442",),
    )


@asynccontextmanager
async def opened(plane: Plane) -> AsyncIterator[Plane]:
    """Open a plane and run no pass: nothing is decided, and time only passes."""
    await plane.open()
    yield plane


@asynccontextmanager
async def running(plane: Plane) -> AsyncIterator[Plane]:
    """Open a plane and run its passes; end without closing it, as a kill does."""
    await plane.open()
    passes = asyncio.create_task(plane.run())
    await settle()
    try:
        yield plane
    finally:
        passes.cancel()
        await asyncio.gather(passes, return_exceptions=True)


async def pass_time(
    clock: FakeClock, seconds: float, beating: Iterable[FakeAgent] = (), *, every: float = 5.0
) -> None:
    """Let time pass while some agents send their heartbeats."""
    agents = tuple(beating)
    left = seconds
    while left > 0:
        step = min(every, left)
        await clock.advance(step)
        left -= step
        for agent in agents:
            agent.beat()
        await settle()


def health(plane: Plane, node: str) -> tuple[str, ...]:
    """Return what a node is said to be sick of."""
    known = plane.fleet.node(node)
    assert known is not None
    return known.health


def says(plane: Plane, report: LoadReport) -> None:
    """Let a gateway say what it has in flight, one that answers each ping at once."""
    plane.loads.take(report)
    plane.loads.settled(report.gateway, math.inf)


def cpu_model(name: str = "tiny", *, replicas: int = 1, **more: object) -> Model:
    """Return a model that runs on the CPU of any machine."""
    return Model(
        name=name,
        source=PathSource(path="/models/tiny.gguf"),
        profiles=(
            Profile(engine=LLAMACPP, min_memory_gb=1.0, replicas=replicas, **more),  # type: ignore[arg-type]
        ),
    )


def spec_of(model: Model, replica: str, **more: object) -> ShardSpec:
    """Return what a replica of a model was started with."""
    profile = model.profiles[0]
    fields: dict[str, object] = {
        "replica": replica,
        "model": model.name,
        "profile": profile.name,
        "fingerprint": fingerprint(model, profile),
        "engine": profile.engine,
        "source": model.source,
        "memory_bytes": GB,
    }
    return ShardSpec(**{**fields, **more})  # type: ignore[arg-type]
