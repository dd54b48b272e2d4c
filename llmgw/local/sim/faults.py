"""Faults, drawn by a seed: what can happen to machines, programs, links, disks and clocks.

A fault is counted when it is done. Each heals by itself after a time that the seed draws, or when
`heal` is called: after that nothing is broken any more, and what is wanted has to come about.
"""

import contextvars
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from llmgw.base.errors import Unreachable
from llmgw.local.sim.engine import Engine
from llmgw.local.sim.http import FileServer
from llmgw.local.sim.loop import Life
from llmgw.local.sim.network import Link
from llmgw.local.sim.world import Head, Host, World

DAY: Final = 86_400.0


@dataclass
class Faults:
    """Does faults to a world.

    Attributes:
        counts: faults that were done, by kind.
        told: called with each fault in words.
        silenced: links that were made half-open, with the time: both ends have to notice.
        jumped: machines whose wall clock was set, with the time.
    """

    world: World
    rng: random.Random
    told: Callable[[str], None] = lambda _words: None
    counts: Counter[str] = field(default_factory=Counter)
    silenced: list[tuple[float, Link]] = field(default_factory=list)
    jumped: list[tuple[float, str]] = field(default_factory=list)
    excused: set[int] = field(default_factory=set)
    """Pids whose records were destroyed: their agent has to end them."""
    more: dict[str, tuple[int, Callable[[], str | None]]] = field(default_factory=dict)
    """Further kinds: how often, and what is done."""
    _heals: dict[int, Callable[[], None]] = field(default_factory=dict)
    _number: int = 0

    def __post_init__(self) -> None:
        self._kinds: dict[str, tuple[int, Callable[[], str | None]]] = {
            "agent killed": (10, self.agent_killed),
            "agent stopped in order": (5, self.agent_stopped),
            "agent frozen": (3, self.agent_frozen),
            "agent killed, record lost": (3, self.record_lost),
            "node lost power": (4, self.power_lost),
            "node away": (7, self.node_away),
            "many nodes away": (2, self.many_away),
            "control plane killed": (6, self.head_killed),
            "control plane stopped in order": (3, self.head_stopped),
            "control plane frozen": (4, self.head_frozen),
            "store away": (4, self.store_away),
            "link half-open": (6, self.link_silent),
            "link deaf in one direction": (3, self.link_half_silent),
            "link reset": (6, self.link_reset),
            "link stalled": (5, self.link_stalled),
            "engine crashed": (8, self.engine_crashed),
            "engine hung": (4, self.engine_hung),
            "engine stalled": (4, self.engine_stalled),
            "node ill for a model": (3, self.node_ill),
            "disk full": (5, self.disk_full),
            "clock jumped": (4, self.clock_jumped),
            "server of weights away": (3, self.server_away),
            "server of weights breaks off": (3, self.server_broken),
            **self.more,
        }

    def one(self) -> str:
        """Do one fault of those that can be done now; return it in words."""
        names = list(self._kinds)
        weights = [weight for weight, _ in self._kinds.values()]
        while True:
            kind = self.rng.choices(names, weights)[0]
            words = self._kinds[kind][1]()
            if words is not None:
                self.counts[kind] += 1
                self.told(f"{kind}: {words}")
                return words

    def heal(self) -> None:
        """Mend everything that is broken now."""
        for number in sorted(self._heals):
            self._heals.pop(number)()

    # Programs.

    def agent_killed(self) -> str | None:
        """Kill an agent; another starts after a while."""
        host = self._host(running=True)
        if host is None:
            return None
        host.kill()
        self._later(self.rng.choice((0.0, 2.0, 10.0, 40.0)), self._start, host)
        return host.name

    def agent_stopped(self) -> str | None:
        """Stop an agent as an upgrade does; another starts when it is gone."""
        host = self._host(running=True)
        if host is None:
            return None
        host.stop()
        self._later(self.rng.uniform(8.0, 12.0), self._start, host)
        return host.name

    def agent_frozen(self) -> str | None:
        """Freeze an agent."""
        host = self._host(running=True)
        if host is None or host.life is None or host.life.frozen:
            return None
        seconds = self.rng.choice((3.0, 12.0, 30.0, 80.0))
        self._freeze(host.life, seconds)
        return f"{host.name} for {seconds:g} s"

    def record_lost(self) -> str | None:
        """Kill an agent, and destroy what it wrote of one of its engines."""
        host = self._host(running=True)
        if host is None:
            return None
        disk, records = host.machine.disk, self.world.records
        names = [name for name in disk.names(records) if disk.size(records / name / "shard.json")]
        if not names:
            return None
        name = self.rng.choice(names)
        host.kill()
        if self.rng.random() < 0.5:
            disk.remove(records / name)
        else:
            disk.put(records / name / "shard.json", b'{"spec": {"repl')
        replica = name.rpartition(".")[0]
        self.excused |= {
            engine.seen.pid
            for engine in host.machine.engines.values()
            if f"/{replica}/" in engine.seen.environ.get("LLMGW_SHARD", "")
        }
        self._later(self.rng.uniform(0.0, 10.0), self._start, host)
        return f"{name} on {host.name}"

    def power_lost(self) -> str | None:
        """Switch a machine off and on."""
        host = self._host()
        if host is None:
            return None
        host.kill()
        host.boot()
        self._later(self.rng.uniform(15.0, 90.0), self._start, host)
        return host.name

    def head_killed(self) -> str | None:
        """Kill a control plane."""
        head = self._head()
        if head is None:
            return None
        head.kill()
        self._later(self.rng.choice((0.5, 5.0, 30.0)), self._start, head)
        return head.name

    def head_stopped(self) -> str | None:
        """Stop a control plane in order."""
        head = self._head()
        if head is None:
            return None
        head.stop()
        self._later(self.rng.uniform(12.0, 20.0), self._start, head)
        return head.name

    def head_frozen(self) -> str | None:
        """Freeze a control plane, for less or more than a lease lasts."""
        head = self._head()
        if head is None or head.life is None or head.life.frozen:
            return None
        seconds = self.rng.choice((2.0, 4.0, 8.0, 12.0, 30.0))
        self._freeze(head.life, seconds)
        return f"{head.name} for {seconds:g} s"

    def store_away(self) -> str | None:
        """Keep a control plane from its store."""
        head = self._head()
        if head is None or head.store_away is not None:
            return None
        head.store_away = Unreachable("the store does not answer")

        def back() -> None:
            head.store_away = None

        self._heals_in(self.rng.choice((2.0, 6.0, 25.0)), back)
        return head.name

    # The network.

    def node_away(self) -> str | None:
        """Cut a machine off from every control plane."""
        host = self._host()
        if host is None or self._is_away(host):
            return None
        seconds = self.rng.choice((5.0, 25.0, 70.0, 150.0))
        self._away(host, seconds)
        return f"{host.name} for {seconds:g} s"

    def many_away(self) -> str | None:
        """Cut more than a third of all machines off at once."""
        count = len(self.world.hosts) // 2
        if count < 3:
            return None
        seconds = self.rng.uniform(75.0, 130.0)
        for host in self.rng.sample(list(self.world.hosts), count):
            if not self._is_away(host):
                self._away(host, seconds)
        return f"{count} for {seconds:.0f} s"

    def link_silent(self) -> str | None:
        """Make a link half-open: nothing passes, and nobody is told."""
        return self._silence(0, 1)

    def link_half_silent(self) -> str | None:
        """Let one direction of a link pass nothing."""
        return self._silence(self.rng.randrange(2))

    def link_reset(self) -> str | None:
        """Cut a link so that both sides are told."""
        link = self._link()
        if link is None:
            return None
        link.reset()
        return self._name(link)

    def link_stalled(self) -> str | None:
        """Hold back what a link carries, and let it all arrive later."""
        link = self._link()
        if link is None or link.stalled:
            return None
        link.stall()
        seconds = self.rng.choice((2.0, 8.0, 14.0, 40.0))
        self._heals_in(seconds, link.resume)
        return f"{self._name(link)} for {seconds:g} s"

    # Engines, disks, clocks, servers.

    def engine_crashed(self) -> str | None:
        """Let an engine end by itself."""
        engine = self._engine()
        if engine is None:
            return None
        engine.crash()
        return engine.seen.environ.get("LLMGW_SHARD", "?")

    def engine_hung(self) -> str | None:
        """Let an engine answer nobody any more."""
        engine = self._engine()
        if engine is None or not engine.loaded:
            return None
        engine.hang()
        return engine.seen.environ.get("LLMGW_SHARD", "?")

    def engine_stalled(self) -> str | None:
        """Let an engine make no token any more."""
        engine = self._engine()
        if engine is None or not engine.loaded or engine.hung:
            return None
        engine.stall()
        return engine.seen.environ.get("LLMGW_SHARD", "?")

    def node_ill(self) -> str | None:
        """Let a model die on a machine whenever it loads there."""
        host, models = self._host(), list(self.world.models())
        if host is None or not models:
            return None
        model = self.rng.choice(models)
        host.ill.add(model)
        for engine in tuple(host.machine.engines.values()):
            if _model_of(engine) == model:
                engine.crash()
        self._heals_in(self.rng.uniform(60.0, 200.0), lambda: host.ill.discard(model))
        return f"{model} on {host.name}"

    def disk_full(self) -> str | None:
        """Let somebody take all that is left of a disk, best where weights are on their way."""
        fetching = [one for one in self.world.hosts if one.fetching]
        host = self.rng.choice(fetching) if fetching else self._host()
        if host is None or host.machine.disk.taken:
            return None
        disk = host.machine.disk
        disk.taken = max(0, disk.free - self.rng.choice((0, 0, 3000)))

        def freed() -> None:
            disk.taken = 0

        self._heals_in(self.rng.uniform(20.0, 120.0), freed)
        return host.name

    def clock_jumped(self) -> str | None:
        """Set a machine's wall clock."""
        places = [(host.name, host.machine.clock) for host in self.world.hosts]
        places += [(head.name, head.clock) for head in self.world.heads]
        name, clock = self.rng.choice(places)
        seconds = self.rng.choice((-DAY, -3600.0, -30.0, 30.0, 3600.0, DAY))
        clock.jump(seconds)
        self.jumped.append((self.world.loop.time(), name))
        return f"{name} by {seconds:g} s"

    def server_away(self) -> str | None:
        """Let a server of weights refuse everybody."""
        server = self._server()
        server.away = True

        def back() -> None:
            server.away = False

        self._heals_in(self.rng.choice((15.0, 60.0, 150.0)), back)
        return "all of it"

    def server_broken(self) -> str | None:
        """Let transfers break off after a while."""
        server = self._server()
        server.broken = True

        def back() -> None:
            server.broken = False

        self._heals_in(self.rng.uniform(10.0, 60.0), back)
        return "all of it"

    # Inside.

    def _host(self, *, running: bool = False) -> Host | None:
        hosts = [one for one in self.world.hosts if not running or one.life is not None]
        return self.rng.choice(hosts) if hosts else None

    def _head(self) -> Head | None:
        heads = [one for one in self.world.heads if one.life is not None]
        return self.rng.choice(heads) if heads else None

    def _link(self) -> Link | None:
        links = [one for one in self.world.network.live() if one.open and not any(one.silent)]
        return self.rng.choice(links) if links else None

    def _engine(self) -> Engine | None:
        engines = [
            engine
            for host in self.world.hosts
            for engine in host.machine.engines.values()
            if not engine.ending
        ]
        return self.rng.choice(engines) if engines else None

    def _server(self) -> FileServer:
        return self.world.servers[self.rng.choice(sorted(self.world.servers))]

    def _silence(self, *sides: int) -> str | None:
        link = self._link()
        if link is None:
            return None
        link.go_silent(*sides)
        self.silenced.append((self.world.loop.time(), link))
        return self._name(link)

    def _name(self, link: Link) -> str:
        found = [host.name for host in self.world.hosts if host.machine.host == link.client]
        return found[0] if found else link.client

    def _is_away(self, host: Host) -> bool:
        return any(client == host.machine.host for client, _ in self.world.network.unreachable)

    def _away(self, host: Host, seconds: float) -> None:
        network, here = self.world.network, host.machine.host
        for link in network.live():
            if link.client == here:
                self.silenced.append((self.world.loop.time(), link))
        for head in self.world.heads:
            network.split(here, head.host)

        def back() -> None:
            for head in self.world.heads:
                network.join(here, head.host)

        self._heals_in(seconds, back)

    def _freeze(self, life: Life, seconds: float) -> None:
        self.world.loop.freeze(life)
        self._heals_in(seconds, lambda: self.world.loop.thaw(life))

    def _start(self, what: Host | Head) -> None:
        if what.life is None:
            what.start()
        elif not what.life.frozen:
            # It was told to end and is not done with that.
            self._later(1.0, self._start, what)

    def _later(self, seconds: float, do: Callable[..., None], *args: object) -> None:
        self._heals_in(seconds, lambda: do(*args))

    def _heals_in(self, seconds: float, do: Callable[[], None]) -> None:
        self._number += 1
        number = self._number
        self._heals[number] = do
        context: Any = contextvars.Context()
        self.world.loop.call_later(seconds, self._healed, number, context=context)

    def _healed(self, number: int) -> None:
        do = self._heals.pop(number, None)
        if do is not None:
            do()


def _model_of(engine: Engine) -> str | None:
    argv = engine.seen.argv
    name = argv[argv.index("--model") + 1] if "--model" in argv else None
    return None if name is None else name.removeprefix("simulated/")
