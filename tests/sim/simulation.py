"""One run: a fleet, people and faults; storms, and calms in which all has to become as wanted."""

import asyncio
import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from llmgw.control.plane import Plane
from llmgw.local.sim.clock import SimClock
from llmgw.local.sim.ended import quiet_end
from llmgw.local.sim.engine import Character, Engine, option
from llmgw.local.sim.faults import Faults
from llmgw.local.sim.foreign import on_virtual_time
from llmgw.local.sim.http import FileServer
from llmgw.local.sim.loop import SimLoop, Stuck
from llmgw.local.sim.network import Network
from llmgw.local.sim.requests import door
from llmgw.local.sim.world import World
from llmgw.model.settings import GatewaySettings, LinkSettings, ReconcileSettings, Settings
from llmgw.plan.backoff import LONGEST
from llmgw.store.memory import Memory
from tests.sim import watch as watching
from tests.sim.coverage import Coverage
from tests.sim.gateway import SimGateway
from tests.sim.head import SimHead
from tests.sim.invariants import Invariants
from tests.sim.node import STATE, Place, SimNode
from tests.sim.operator import ACTOR, FILES, Operator, catalog
from tests.sim.paces import paced
from tests.sim.replays import Replays
from tests.sim.rules import Violation
from tests.sim.rules_of_requests import RulesOfRequests
from tests.sim.settling import nobody_gives_way, not_settled, out_of_place
from tests.sim.users import FIRST_BYTE, HELD_FOR, Users
from tests.sim.watch import Watch

STORM = 200.0
"""Seconds of faults."""
SETTLES = 420.0
"""Seconds after the last fault within which everything has to be as it is wanted: the longest
back-off is 300 s."""
ROLLED_EACH = 30.0
"""Seconds that each of a full fleet's outdated replicas has beyond that: they go one by one."""
BEGINS = 120.0
DRAIN_LIMIT = 30.0
STABLE = 8.0
"""Seconds for which it has to stay so."""
FAULT_EACH = 14.0
EDIT_EACH = 25.0
WEIGHTS = 4000
"""Bytes of a file of weights."""
OK, UNAVAILABLE = 200, 503
MEMORY_EACH = 140 * 10**9


@dataclass(frozen=True)
class Options:
    """How large a run is."""

    agents: int = 10
    seconds: float = 3600.0
    heads: int = 2
    gateways: tuple[int, ...] = (1, 1, 2)
    """How many there may be."""


@dataclass
class Outcome:
    """What came of a run."""

    seed: int
    seconds: float
    """Simulated."""
    steps: int
    trace: str
    checks: int
    faults: Counter[str] = field(default_factory=Counter)
    edits: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    coverage: Counter[str] = field(default_factory=Counter)
    violation: str | None = None
    last: tuple[str, ...] = ()


class Simulation:
    """A fleet on virtual time.

    Args:
        seed: everything that chance decides follows from it.
        options: the fleet and how long it runs.
        directory: gets the nodes' weights.
    """

    def __init__(self, seed: int, options: Options, directory: Path) -> None:
        self.seed = seed
        self.options = options
        self.loop = SimLoop()
        self.began = self.loop.time()
        self.coverage = Coverage()
        self.watch = Watch(self.loop, str(directory))
        self.rng = random.Random(f"{seed}/run")
        self.stormy = False
        self.network = Network(self.loop, random.Random(f"{seed}/network"))
        self.memory = Memory(SimClock(self.loop))
        self.removed: set[str] = set()
        """Nodes that nobody lets in: they were removed, and are not let in anew yet."""
        self.heads = [
            SimHead(self.loop, self.network, self.memory, self.removed, number, str(seed))
            for number in range(1, options.heads + 1)
        ]
        files = {f"/chat-{number}.gguf": _weights(number) for number in range(FILES)}
        self.whole_weights = frozenset(files.values())
        servers = {"weights.example": FileServer(files)}
        addresses = tuple(head.address for head in self.heads)
        place = Place(self.loop, self.network, addresses, servers, directory)
        self.nodes = [
            SimNode(place, number, self.rng.choice((2, 2, 2, 3)), str(seed))
            for number in range(options.agents)
        ]
        self.by_host = {node.machine.host: node for node in self.nodes}
        self.by_name = {node.name: node for node in self.nodes}
        self.gateways = [
            SimGateway(self.network, addresses, directory, number, str(seed))
            for number in range(1, self.rng.choice(options.gateways) + 1)
        ]
        self.users = Users(self, random.Random(f"{seed}/users"))
        self.operator = Operator(self, random.Random(f"{seed}/operator"))
        self.replays = Replays(self, random.Random(f"{seed}/replays"))
        self.faults = self._make_faults(servers)
        self.invariants = Invariants(self, self.coverage)
        self.interval = self.rng.choice((10.0, 15.0, 15.0))
        self._hook()

    def _make_faults(self, servers: dict[str, FileServer]) -> Faults:
        world = World(
            loop=self.loop,
            network=self.network,
            hosts=self.nodes,
            heads=self.heads,
            servers=servers,
            records=STATE / "shards",
            models=lambda: sorted(self.operator.models),
            gateways=self.gateways,
        )
        faults = Faults(
            world,
            random.Random(f"{self.seed}/faults"),
            more={
                "start sent again": (4, self.replays.start_again),
                "start of an older term": (3, self.replays.start_of_an_older_term),
                "stop of an older term": (3, self.replays.stop_of_an_older_term),
            },
        )
        faults.told = lambda words: self.watch.note(f"FAULT {words}")
        return faults

    def _hook(self) -> None:
        self.watch.hear = self.invariants.hear
        for node in self.nodes:
            machine = node.machine
            machine.changed = self.invariants.table_changed
            machine.signalled = self.invariants.signalled
            machine.disk.written = lambda path, data, machine=machine: (  # type: ignore[misc]
                self.invariants.file_written(machine, path, data)
            )
            self.network.doors[machine.host] = door(machine, self.requests.asked)
            machine.casting = lambda argv, node=node: self._cast(node, argv)  # type: ignore[misc]
        for head in self.heads:
            head.made = self.invariants.watch_plane

    # What others ask.

    def leader(self) -> Plane | None:
        """Return the control plane that leads."""
        return next((h.plane for h in self.heads if h.plane and h.plane.leader), None)

    @property
    def requests(self) -> RulesOfRequests:
        """Return what looks at requests."""
        return self.invariants.requests

    def reserves(self, engine: Engine) -> int:
        """Return the memory that an engine was given."""
        model = (option(engine.seen.argv, "--model") or "").removeprefix("simulated/")
        return MEMORY_EACH if model in {"embed", "rank"} else 0

    def model_of(self, replica: str) -> str:
        """Return the model of a replica, by its id."""
        return replica.rpartition("-")[0]

    # The run.

    async def run(self) -> None:
        """Run to the end, or to the first violation.

        Raises:
            Violation: an invariant does not hold.
        """
        await self._begin()
        end = self.began + self.options.seconds
        await self._settle("the fleet did not come up", BEGINS + SETTLES)
        while self.loop.time() < end:
            await self._storm(min(STORM, end - self.loop.time()))
            await self._calm()
            await self._restart_one()
            await self._everything_answers()

    async def _begin(self) -> None:
        settings = Settings(
            link=LinkSettings(heartbeat_interval=self.interval),
            reconcile=ReconcileSettings(
                period=self.rng.choice((5.0, 5.0, 8.0)), drain_limit=DRAIN_LIMIT
            ),
            gateway=GatewaySettings(held_for=HELD_FOR, first_byte_timeout=FIRST_BYTE),
            engines={},
        )
        self.memory.settings.put(settings, 0, ACTOR, 0.0)
        for head in self.heads:
            head.start()
        await self._seconds(3.0)
        for node in self.nodes:
            node.start()
        for gateway in self.gateways:
            gateway.start()
        for model in catalog(self.options.agents, self.rng):
            while not await self.operator.put_model(model, "model added"):
                await self._seconds(1.0)

    async def _storm(self, seconds: float) -> None:
        self.watch.note("storm")
        self.stormy = True
        end = self.loop.time() + seconds
        each = FAULT_EACH * 10 / max(10, min(60, len(self.nodes)))
        people = asyncio.ensure_future(self._people(end))
        self._users = asyncio.ensure_future(self.users.come_and_go(end))
        while self.loop.time() < end:
            self.faults.one()
            await self._seconds(self.rng.expovariate(1 / each))
        await people
        self.stormy = False

    async def _people(self, end: float) -> None:
        while self.loop.time() < end:
            await asyncio.sleep(self.rng.expovariate(1 / EDIT_EACH))
            await self.operator.edit()

    async def _calm(self) -> None:
        """Mend everything, and see that what runs becomes what is wanted."""
        self.watch.note("calm")
        self._mend()
        people = asyncio.ensure_future(self.operator.calm())
        while not (people.done() and self._users.done()):
            await self._seconds(1.0)
        await asyncio.gather(people, self._users)
        self._mend()
        plane = self.leader()
        stale = [one for one in plane.fleet.replicas() if one.stale] if plane is not None else ()
        within = SETTLES + ROLLED_EACH * len(stale)
        await self._settle("what is wanted did not come about", within)

    def _mend(self) -> None:
        self.faults.heal()
        programs: list[SimHead | SimNode | SimGateway] = [*self.heads, *self.nodes, *self.gateways]
        for one in programs:
            _started(one)

    def _engines(self) -> list[Engine]:
        return [one for node in self.nodes for one in tuple(node.machine.engines.values())]

    async def _settle(self, complaint: str, within: float) -> None:
        """Wait until all is as it is wanted.

        The time does not run while nobody gives way to a model because it failed too often: that is
        promised to last. It is at most the longest such time.
        """
        began, since = self.loop.time(), None
        words: str | None = "not looked yet"
        patience = LONGEST
        while since is None or self.loop.time() - since < STABLE:
            await self._seconds(1.0)
            words = not_settled(self)
            if words is not None and patience > 0 and nobody_gives_way(self):
                began, patience = began + 1.0, patience - 1.0
            if words is not None:
                since = None
            elif since is None:
                since = self.loop.time()
            if self.loop.time() - began > within:
                raise Violation(f"{complaint} within {within:g} s: {words}")

    async def _restart_one(self) -> None:
        """Restart something of a fleet at rest: no engine may notice."""
        pids = {one.seen.pid for one in self._engines()}
        if self.rng.random() < 0.5:
            head = self.rng.choice(self.heads)
            self.watch.note(f"restart of {head.name}")
            head.kill()
            await self._seconds(self.rng.choice((1.0, 8.0, 20.0)))
            _started(head)
        else:
            node = self.rng.choice(self.nodes)
            self.watch.note(f"restart of {node.name}")
            node.kill()
            await self._seconds(self.rng.choice((1.0, 8.0, 40.0)))
            _started(node)
        await self._settle("not at rest again after a restart", BEGINS)
        now = {one.seen.pid for one in self._engines()}
        if now != pids:
            raise Violation(f"a restart changed what runs: {sorted(pids ^ now)}")

    async def _everything_answers(self) -> None:
        """Ask for each model that is there or may be started, at each gateway: it is answered."""
        while self.users.key is None:
            await self.users.get_key()
            await self._seconds(2.0)
        asked = [(one, model) for one in self.gateways for model in self.operator.served()]
        answers = [asyncio.ensure_future(self.users.ask(*one)) for one in asked]
        while not all(one.done() for one in answers):
            await self._seconds(1.0)
        out = out_of_place((one.plane for one in self.heads), {model for _, model in asked})
        for (gateway, model), answer in zip(asked, answers, strict=True):
            if answer.result() != OK and not (answer.result() == UNAVAILABLE and model in out):
                raise Violation(
                    f"{gateway.name} answers {answer.result()} for {model}, and nothing is broken"
                )

    async def _seconds(self, seconds: float) -> None:
        """Let time pass; check each second."""
        end = self.loop.time() + seconds
        while self.loop.time() < end:
            await asyncio.sleep(min(1.0, max(0.001, end - self.loop.time())))
            self.invariants.each_second()
            self.watch.note(f"steps {self.loop.steps}")
            if self.invariants.broken is not None:
                raise Violation(self.invariants.broken)

    def _cast(self, node: SimNode, argv: tuple[str, ...]) -> Character:
        """Return how an engine behaves that starts now."""
        rng = node.rng
        model = (option(argv, "--model") or "").removeprefix("simulated/")
        if model in node.ill:
            return Character(loads=rng.uniform(1.0, 4.0), dies_loading=True)
        if not self.stormy:
            return Character(loads=rng.uniform(1.0, 5.0), ends=rng.uniform(0.1, 1.0))
        chance = rng.random()
        # What waits in a driver heeds no signal at all for a while.
        waits = rng.random() < 0.03
        return Character(
            loads=rng.uniform(1, 6) if chance < 0.85 else rng.choice((20.0, 45.0, 150.0)),
            ends=rng.uniform(0.1, 3.0),
            heeds_term=not waits and rng.random() > 0.08,
            killed=14.0 if waits else rng.choice((4.0, 14.0)) if rng.random() < 0.06 else 0.0,
            replies=rng.choice((0.5, 3.0, 12.0, 25.0)),
        )


def _started(one: SimHead | SimNode | SimGateway) -> None:
    if one.life is None:
        one.start()


def _weights(number: int) -> bytes:
    return b"GGUF" + (3).to_bytes(4, "little") + random.Random(number).randbytes(WEIGHTS)


def simulate(seed: int, options: Options) -> Outcome:
    """Run one seed to its end; return what came of it."""
    with (
        tempfile.TemporaryDirectory(prefix="llmgw-sim-") as directory,
        watching.hearing() as hearing,
        quiet_end(),
        paced(),
    ):
        return _simulate(seed, options, Path(directory), hearing)


def _simulate(seed: int, options: Options, directory: Path, hearing: list[Watch]) -> Outcome:
    sim = Simulation(seed, options, directory)
    violation = None
    hearing.append(sim.watch)
    try:
        with on_virtual_time(sim.loop):
            sim.loop.run_until_complete(sim.run())
    except (Violation, Stuck) as error:
        violation = str(error)
    finally:
        hearing.clear()
        sim.loop.close()
    return Outcome(
        seed=sim.seed,
        seconds=sim.loop.time() - sim.began,
        steps=sim.loop.steps,
        trace=sim.watch.trace.hexdigest()[:16],
        checks=sim.invariants.checks,
        faults=sim.faults.counts,
        edits=sim.operator.counts,
        requests=sim.users.counts,
        coverage=sim.coverage.counts,
        violation=violation,
        last=tuple(sim.watch.last),
    )
