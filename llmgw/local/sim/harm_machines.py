"""Faults of machines: power, engines, disks, clocks, and the servers that weights come from."""

from dataclasses import dataclass, field
from typing import Final

from llmgw.local.sim.engine import Engine
from llmgw.local.sim.harm import Harm, Kinds
from llmgw.local.sim.http import FileServer

DAY: Final = 86_400.0


@dataclass
class OnMachines(Harm):
    """Does them.

    Attributes:
        jumped: machines whose wall clock was set, with the time.
    """

    jumped: list[tuple[float, str]] = field(default_factory=list)

    def kinds(self) -> Kinds:
        """Return the faults of machines."""
        return {
            "node lost power": (4, self.power_lost),
            "engine crashed": (8, self.engine_crashed),
            "engine hung": (4, self.engine_hung),
            "engine stalled": (4, self.engine_stalled),
            "node ill for a model": (3, self.node_ill),
            "disk full": (5, self.disk_full),
            "clock jumped": (4, self.clock_jumped),
            "server of weights away": (3, self.server_away),
            "server of weights breaks off": (3, self.server_broken),
        }

    def power_lost(self) -> str | None:
        """Switch a machine off and on."""
        host = self._host()
        if host is None:
            return None
        host.kill()
        host.boot()
        self._later(self.rng.uniform(15.0, 90.0), self._start, host)
        return host.name

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
        for one in self._with(engine):
            one.hang()
        return engine.seen.environ.get("LLMGW_SHARD", "?")

    def engine_stalled(self) -> str | None:
        """Let an engine make no token any more."""
        engine = self._engine()
        if engine is None or not engine.loaded or engine.hung:
            return None
        for one in self._with(engine):
            one.stall()
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
        self.healing.after(self.rng.uniform(60.0, 200.0), lambda: host.ill.discard(model))
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

        self.healing.after(self.rng.uniform(20.0, 120.0), freed)
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

        self.healing.after(self.rng.choice((15.0, 60.0, 150.0)), back)
        return "all of it"

    def server_broken(self) -> str | None:
        """Let transfers break off after a while."""
        server = self._server()
        server.broken = True

        def back() -> None:
            server.broken = False

        self.healing.after(self.rng.uniform(10.0, 60.0), back)
        return "all of it"

    def _engine(self) -> Engine | None:
        engines = [
            engine
            for host in self.world.hosts
            for engine in host.machine.engines.values()
            if not engine.ending
        ]
        return self.rng.choice(engines) if engines else None

    def _with(self, engine: Engine) -> list[Engine]:
        """Return a replica's engines on all machines: they wait for each other."""
        return [
            one
            for host in self.world.hosts
            for one in host.machine.engines.values()
            if _replica_of(one) == _replica_of(engine)
        ]

    def _server(self) -> FileServer:
        return self.world.servers[self.rng.choice(sorted(self.world.servers))]


def _replica_of(engine: Engine) -> str:
    return engine.seen.environ.get("LLMGW_SHARD", "?").rpartition("/")[0].rpartition("/")[2]


def _model_of(engine: Engine) -> str | None:
    argv = engine.seen.argv
    name = argv[argv.index("--model") + 1] if "--model" in argv else None
    return None if name is None else name.removeprefix("simulated/")
