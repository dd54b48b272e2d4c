"""Faults of programs: agents, control planes and gateways that are killed, stopped or frozen."""

from dataclasses import dataclass, field

from llmgw.base.errors import Unreachable
from llmgw.local.sim.harm import Harm, Kinds
from llmgw.local.sim.loop import Life
from llmgw.local.sim.world import Gateway


@dataclass
class OnPrograms(Harm):
    """Does them.

    Attributes:
        excused: pids whose records were destroyed: their agent has to end them.
    """

    excused: set[int] = field(default_factory=set)

    def kinds(self) -> Kinds:
        """Return the faults of programs."""
        kinds: Kinds = {
            "agent killed": (10, self.agent_killed),
            "agent stopped in order": (5, self.agent_stopped),
            "agent frozen": (3, self.agent_frozen),
            "agent killed, record lost": (3, self.record_lost),
            "control plane killed": (6, self.head_killed),
            "control plane stopped in order": (3, self.head_stopped),
            "control plane frozen": (4, self.head_frozen),
            "store away": (4, self.store_away),
        }
        if self.world.gateways:
            kinds |= {
                "gateway killed": (3, self.gateway_killed),
                "gateway stopped in order": (2, self.gateway_stopped),
                "gateway's worker killed": (3, self.worker_killed),
            }
        return kinds

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

        self.healing.after(self.rng.choice((2.0, 6.0, 25.0)), back)
        return head.name

    def gateway_killed(self) -> str | None:
        """Kill a gateway and its workers; another starts after a while."""
        gateway = self._gateway()
        if gateway is None:
            return None
        gateway.kill()
        self._later(self.rng.choice((0.0, 2.0, 15.0)), self._start, gateway)
        return gateway.name

    def gateway_stopped(self) -> str | None:
        """Stop a gateway in order: replies that it carries may end."""
        gateway = self._gateway()
        if gateway is None:
            return None
        gateway.stop()
        self._later(self.rng.uniform(5.0, 15.0), self._start, gateway)
        return gateway.name

    def worker_killed(self) -> str | None:
        """Kill a gateway's worker; its parent starts another."""
        gateway = self._gateway()
        return None if gateway is None or not gateway.kill_worker() else gateway.name

    def _gateway(self) -> Gateway | None:
        there = [one for one in self.world.gateways if one.life is not None]
        return self.rng.choice(there) if there else None

    def _freeze(self, life: Life, seconds: float) -> None:
        self.world.loop.freeze(life)
        self.healing.after(seconds, lambda: self.world.loop.thaw(life))
