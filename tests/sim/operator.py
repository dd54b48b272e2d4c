"""People: they edit the catalog and the settings at the worst moment, and remember what was said.

Only what a control plane acknowledged counts as done; what was not answered may have happened.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from llmgw.base.errors import LlmgwError
from llmgw.control.plane import Plane
from llmgw.local.sim.engine import Engine
from llmgw.model.catalog import (
    REPLACE,
    SIMULATED,
    Disconnect,
    Model,
    Profile,
    Scaling,
    UrlSource,
)
from llmgw.model.shard import READY
from tests.sim.rules import name_of

if TYPE_CHECKING:
    from tests.sim.simulation import Simulation

PATIENCE = 20.0
"""Seconds after which whoever asked gives up waiting."""
ACTOR = "operator"
CROWDED = 40.0
"""Seconds for which users ask for what fills all that there is."""
FILES = 8
"""Files of weights, each fetched anew by a node that does not have it."""


def catalog(agents: int, rng: random.Random) -> tuple[Model, ...]:
    """Return models that fit a fleet of so many nodes twice."""

    def share(part: float) -> int:
        return max(1, round(part * agents))

    def one(name: str, **profile: Any) -> Profile:
        return Profile(engine=SIMULATED, **profile)

    on_return = rng.choice(("original", "newer", "better"))
    return (
        Model(
            name="chat",
            source=_weights(0),
            profiles=(one("chat", gpus=1, replicas=share(0.2)),),
        ),
        Model(
            name="big",
            disconnect=Disconnect(policy=REPLACE, after=20.0, on_return=on_return),
            profiles=(one("big", gpus=2, replicas=share(0.1), priority=5),),
        ),
        Model(
            name="code",
            disconnect=Disconnect(policy=REPLACE, after=15.0, on_return=on_return),
            profiles=(one("code", gpus=1, replicas=share(0.2)),),
        ),
        Model(
            name="pair",
            source=_weights(1),
            profiles=(one("pair", gpus=1, nodes=2, replicas=share(0.15), priority=3),),
        ),
        Model(
            name="rare",
            profiles=(
                one(
                    "rare",
                    gpus=1,
                    replicas=0,
                    max_replicas=share(0.2),
                    priority=4,
                    scaling=Scaling(in_flight=2, window=5.0, down_window=20.0, idle_stop=40.0),
                ),
            ),
        ),
        Model(
            name="busy",
            profiles=(
                one(
                    "busy",
                    gpus=1,
                    max_replicas=max(2, share(0.3)),
                    scaling=Scaling(in_flight=1, window=5.0, down_window=15.0),
                ),
            ),
        ),
        Model(
            name="batch",
            profiles=(one("batch", gpus=1, replicas=share(0.2), priority=-5),),
        ),
        Model(
            name="embed",
            profiles=(one("embed", min_memory_gb=140.0, cpu_cores=4, replicas=share(0.3)),),
        ),
        Model(
            name="rank",
            profiles=(one("rank", min_memory_gb=140.0, cpu_cores=4, replicas=share(0.2)),),
        ),
    )


@dataclass
class Operator:
    """Makes changes through whichever control plane leads, one at a time."""

    sim: "Simulation"
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    versions: dict[str, int] = field(default_factory=dict)
    """Of the models that were acknowledged and not removed since."""
    models: dict[str, Model] = field(default_factory=dict)
    """What was acknowledged last."""
    removed: dict[str, Model] = field(default_factory=dict)
    settings_version: int = 0
    stopped: bool = False
    wishes: dict[str, str | None] = field(default_factory=dict)

    def wanted(self) -> dict[str, int]:
        """Return how many replicas of each model are wanted."""
        if self.stopped:
            return {}
        stored = self.sim.memory.catalog.entries()
        return {one.model.name: one.model.profiles[0].replicas for one in stored}

    def nodes_of(self, replica: str) -> int:
        """Return how many nodes a replica is on."""
        model = self.models.get(self.sim.model_of(replica))
        return 1 if model is None else model.profiles[0].nodes

    def priority_of(self, engine: Engine) -> int:
        """Return the priority that an engine's model has now; of one that left the lowest."""
        replica = name_of(engine).partition("/")[0]
        model = self.models.get(self.sim.model_of(replica))
        return -1000 if model is None else model.profiles[0].priority

    def served(self) -> list[str]:
        """Return the models of which a replica is ready, and those that a request starts."""
        plane = self.sim.leader()
        known = plane.fleet.replicas() if plane is not None else ()
        there = {one.model for one in known if one.state == READY}
        rests = {
            one.model.name
            for one in self.sim.memory.catalog.entries()
            if one.model.profiles[0].scaling is not None
        }
        return sorted(one for one in there | rests if one is not None and one in self.wanted())

    async def ask(self, kind: str, work: Callable[[Plane], Awaitable[Any]]) -> Any:
        """Ask the leader for something; return its answer, None when there is none."""
        head = next((one for one in self.sim.heads if one.plane and one.plane.leader), None)
        if head is None or head.plane is None or head.life is None:
            return None
        task = self.sim.loop.live_more(head.life, _answered(work(head.plane)))
        done, _ = await asyncio.wait({task}, timeout=PATIENCE)
        if not done or isinstance(task.result(), LlmgwError):
            return None
        self.counts[kind] += 1
        return task.result()

    async def put_model(self, model: Model, kind: str = "model edited") -> bool:
        """Add or change a model; it counts as unknown until that is acknowledged."""
        version = self.versions.pop(model.name, None)
        entry = await self.ask(kind, lambda plane: plane.catalog.put(model, None, actor=ACTOR))
        if entry is None:
            # It may have been stored or not: the older version at least is there.
            if version is not None:
                self.versions[model.name] = version
            return False
        self.versions[model.name] = entry.version
        self.models[model.name] = model
        self.removed.pop(model.name, None)
        return True

    async def remove_model(self, name: str) -> None:
        """Remove a model."""
        self.versions.pop(name, None)
        self.removed[name] = self.models[name]
        await self.ask(
            "model removed", lambda plane: _true(plane.catalog.remove(name, actor=ACTOR))
        )

    async def put_setting(self, path: str, value: object, kind: str = "setting edited") -> bool:
        """Change a setting."""
        stored = await self.ask(kind, lambda plane: plane.settings.put(path, value, actor=ACTOR))
        if stored is None:
            return False
        self.settings_version = stored.version
        return True

    async def stop(self, stopped: bool) -> None:
        """Stop or start the system; while that is not acknowledged nothing is claimed."""
        self.stopped = False
        kind = "system stopped" if stopped else "system started"
        if await self.put_setting("serving.stopped", stopped, kind):
            self.stopped = stopped

    async def wish(self, node: str, wish: str | None) -> None:
        """Drain, cordon or release a node."""
        self.wishes.pop(node, None)
        kind = f"node {wish or 'released'}"
        done = await self.ask(
            kind, lambda plane: plane.membership.set_wish(node, wish, actor=ACTOR)
        )
        if done is not None:
            self.wishes[node] = wish

    async def edit(self) -> None:
        """Do something that people do."""
        edits: tuple[tuple[int, Callable[[], Awaitable[None]]], ...] = (
            (6, self._scale),
            (4, self._change),
            (2, self._remove),
            (3, self._add_back),
            (3, self._node_wish),
            (1, self._remove_node),
            (2, self._setting),
            (1, self._stop_or_start),
            (1, self._crowd),
        )
        await self.rng.choices([e for _, e in edits], [w for w, _ in edits])[0]()

    async def calm(self) -> None:
        """Take back what keeps the fleet from being as it is wanted."""
        self.sim.removed.clear()
        for node in self.sim.nodes:
            # What was not acknowledged may stand as well.
            stored = {one.id: one.wish for one in self.sim.memory.nodes.every_node()}
            if self.wishes.get(node.name) or stored.get(node.name):
                await self._until(partial(self._released, node.name))
        if self.sim.memory.settings.newest().settings.serving.stopped:
            await self._until(self._started)

    async def _released(self, node: str) -> bool:
        await self.wish(node, None)
        return node in self.wishes

    async def _started(self) -> bool:
        return await self.put_setting("serving.stopped", False, "system started")

    async def _until(self, work: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(60):
            if await work():
                self.stopped = self.sim.memory.settings.newest().settings.serving.stopped
                return
            await asyncio.sleep(2.0)

    async def _scale(self) -> None:
        name = self.rng.choice(sorted(self.models))
        model = self.models[name]
        profile, most = model.profiles[0], max(2, round(0.25 * len(self.sim.nodes)))
        if profile.scaling is not None:
            await self._put(
                name, model, max_replicas=self.rng.randint(max(1, profile.replicas), most)
            )
            return
        if profile.priority < 0 and self.rng.random() < 0.5:
            # What nobody misses fills all that there is, at times.
            most = sum(node.cards for node in self.sim.nodes)
        await self._put(name, model, replicas=self.rng.randint(0, most))

    async def _crowd(self) -> None:
        """Fill all cards with what counts least, and want more of what counts while it has work."""
        by_priority = sorted(
            (model.profiles[0].priority, name)
            for name, model in self.models.items()
            if name not in self.removed and model.profiles[0].scaling is None
        )
        if len({priority for priority, _ in by_priority}) < 2 or self.rng.random() < 0.5:
            return
        low, high = by_priority[0][1], by_priority[-1][1]
        await self._put(low, self.models[low], replicas=sum(node.cards for node in self.sim.nodes))
        self.sim.users.crowd(low, CROWDED)
        await asyncio.sleep(self.rng.uniform(0.4, 0.8) * CROWDED)
        if high in self.models and high not in self.removed:
            more = self.models[high].profiles[0].replicas + self.rng.choice((1, 2))
            await self._put(high, self.models[high], replicas=more)

    async def _change(self) -> None:
        name = self.rng.choice(sorted(self.models))
        model = self.models[name]
        if self.rng.random() < 0.3:
            changed = msgspec.structs.replace(model, generation=model.generation + 1)
            await self.put_model(changed)
            return
        if model.source is not None and self.rng.random() < 0.7:
            source = _weights(self.rng.randrange(FILES))
            await self.put_model(msgspec.structs.replace(model, source=source))
            return
        await self._put(name, model, context=self.rng.choice((1024, 2048, 4096, 8192)))

    async def _put(self, name: str, model: Model, **changes: Any) -> None:
        profile = msgspec.structs.replace(model.profiles[0], **changes)
        await self.put_model(msgspec.structs.replace(model, profiles=(profile,)))

    async def _remove(self) -> None:
        there = sorted(set(self.models) - set(self.removed))
        if len(there) > 2:
            await self.remove_model(self.rng.choice(there))

    async def _add_back(self) -> None:
        if self.removed:
            name = self.rng.choice(sorted(self.removed))
            await self.put_model(self.removed[name], "model added")

    async def _node_wish(self) -> None:
        node = self.rng.choice(self.sim.nodes).name
        drained = [name for name, wish in sorted(self.wishes.items()) if wish]
        if len(drained) >= max(1, len(self.sim.nodes) // 5):
            await self.wish(self.rng.choice(drained), None)
        else:
            await self.wish(node, self.rng.choice(("draining", "cordoned", None)))

    async def _remove_node(self) -> None:
        """Remove a node; it is let in anew after a while, as what it is then."""
        there = [one.name for one in self.sim.nodes if one.name not in self.sim.removed]
        if len(there) < len(self.sim.nodes):
            return
        name = self.rng.choice(there)
        self.sim.removed.add(name)
        self.wishes.pop(name, None)
        await self.ask(
            "node removed", lambda plane: _true(plane.membership.remove(name, actor=ACTOR))
        )
        seconds = self.rng.uniform(20.0, 120.0)
        self.sim.loop.call_later(seconds, self.sim.removed.discard, name)

    async def _setting(self) -> None:
        port = self.rng.choice((9400, 9401, 9402))
        await self.put_setting("discovery.dcgm_exporter", f"http://127.0.0.1:{port}/metrics")

    async def _stop_or_start(self) -> None:
        await self.stop(not self.stopped)


def _weights(number: int) -> UrlSource:
    return UrlSource(url=f"http://weights.example/chat-{number}.gguf")


async def _answered(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except LlmgwError as error:
        return error


async def _true(work: Awaitable[None]) -> bool:
    await work
    return True
