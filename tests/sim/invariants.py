"""What has to hold at every moment."""

import re
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from llmgw.control.plane import Plane
from llmgw.local.sim.engine import Engine
from llmgw.local.sim.loop import Life
from llmgw.local.sim.machine import Machine
from llmgw.local.sim.network import Link
from llmgw.model.feed import NODES, REPLICAS
from llmgw.model.node import DRAINING, LOST
from llmgw.model.replica import LEAVING, Replica
from llmgw.model.shard import FAILED, READY, STOPPED, STUCK
from llmgw.plan.records import Plan, StartReplica
from llmgw_agent.supervise.environment import shard_of
from tests.sim.coverage import Coverage
from tests.sim.node import MEMORY_KIB, STATE
from tests.sim.promises import broken_weights, forgotten, unknown_to_the_leader
from tests.sim.watch import Said

if TYPE_CHECKING:
    from tests.sim.simulation import Simulation

UNKNOWN_FOR = 25.0
"""Seconds for which an engine may be unknown to the leader on whose stream its node is."""
STOPPED_WITHIN = 60.0
"""Seconds after which a stopped system has nothing running on nodes that were reachable."""
NOTICE = 3.0
"""Seconds beyond three heartbeats in which a half-open link has to be noticed."""
AT_ONCE = 125
"""Agents that may register within one second: what a control plane sustains (`link.SPREAD`)."""
AGAIN_AND_AGAIN = 12
"""Attempts of one agent within ten seconds."""

REPLAYED = 120.0
"""Seconds after a repeated start in which its node may hold what nobody meant it to."""
_HELD = re.compile(r"failed on .*(: held by .*, which is|of memory is not reserved)")

BAD_WORDS = ("pass failed", "command failed", "stream failed", "a fault of the agent's")
"""Records that are always a mistake of the product when an error comes with them."""


class Violation(Exception):
    """An invariant does not hold."""


@dataclass
class Invariants:
    """Checks one run; the first violation ends it."""

    sim: "Simulation"
    coverage: Coverage
    checks: int = 0
    _unknown: dict[int, float] = field(default_factory=dict)
    _acting: dict[int, str] = field(default_factory=dict)
    _sent: dict[int, int] = field(default_factory=dict)
    _stops: set[str] = field(default_factory=set)
    _terms: dict[str, int] = field(default_factory=dict)
    _versions: dict[str, int] = field(default_factory=dict)
    _registered: Counter[int] = field(default_factory=Counter)
    _stopped_since: float | None = None
    _excused: set[int] = field(default_factory=set)
    _termed: set[int] = field(default_factory=set)
    _unreachable_at: dict[str, float] = field(default_factory=dict)
    _told: dict[tuple[int, str], dict[tuple[str, int], str | None]] = field(default_factory=dict)
    """What a node that is away ran, by its own last word, for each control plane."""
    broken: str | None = None
    """The first violation: it may be found in the middle of somebody's step."""

    def violated(self, words: str) -> None:
        """Note a violation."""
        if self.broken is None:
            self.broken = words
            self.sim.watch.note(f"VIOLATION: {words}")

    # At each change of a process table.

    def table_changed(self, machine: Machine, engine: Engine) -> None:
        """One device, one process."""
        self.checks += 1
        if engine.alive:
            self._one_each(machine)
            self._memory(machine)
        word = "starts" if engine.alive else f"ends {engine.rc}"
        self.sim.watch.note(f"{machine.name} pid {engine.seen.pid} {word}")

    def _one_each(self, machine: Machine) -> None:
        seen: dict[str, Engine] = {}
        for engine in machine.engines.values():
            for device in engine.devices:
                other = seen.setdefault(device, engine)
                if other is not engine:
                    names = f"{name_of(other)} and {name_of(engine)}"
                    self.violated(f"{machine.name}: {device} is used by {names}")

    def _memory(self, machine: Machine) -> None:
        reserved = sum(self.sim.reserves(engine) for engine in machine.engines.values())
        if reserved > MEMORY_KIB * 1024:
            self.violated(f"{machine.name}: {reserved} bytes of memory are given out")

    def signalled(self, machine: Machine, engine: Engine, signal_: signal.Signals) -> None:
        """End a healthy engine only when a leader said so, or nobody can describe it."""
        self.checks += 1
        self.sim.watch.note(f"{machine.name} pid {engine.seen.pid} gets {signal_.name}")
        if signal_ == signal.SIGKILL and engine.seen.pid in self._termed:
            self.coverage.counts["killed after it ignored SIGTERM"] += 1
            self._termed.discard(engine.seen.pid)
        elif signal_ == signal.SIGTERM:
            self._termed.add(engine.seen.pid)
        if not engine.healthy or engine.seen.pid in self.sim.faults.excused:
            return
        self._look_at_sent()
        replica = name_of(engine).partition("/")[0]
        if replica not in self._stops:
            self.violated(
                f"{machine.name}: {name_of(engine)} is healthy and ended by nobody's order"
            )

    # At each change of a book.

    def file_written(self, machine: Machine, path: Path, data: bytes) -> None:
        """A term and a version of settings that an agent has seen never fall."""
        if path != STATE / "cluster.json":
            return
        self.checks += 1
        kept = msgspec.json.decode(data)
        self._monotone(machine.name, "term", kept["term"], self._terms)
        if kept.get("settings"):
            version = kept["settings"]["version"]
            self._monotone(machine.name, "version of settings", version, self._versions)

    def _monotone(self, who: str, what: str, now: int, known: dict[str, int]) -> None:
        if now < known.get(who, 0):
            self.violated(f"{who}: its {what} fell from {known[who]} to {now}")
        known[who] = now

    def watch_plane(self, plane: Plane) -> None:
        """Check the books of a control plane after each of their changes."""
        mark = plane.feed.mark

        def marked(topic: str, object_id: str) -> None:
            mark(topic, object_id)
            if topic == REPLICAS and plane.leader:
                self._books(plane)
            elif topic == NODES:
                self._note_told(plane, object_id)

        plane.feed.mark = marked  # type: ignore[method-assign]
        reconcile = plane.passes["reconcile"]._run.__self__  # type: ignore[attr-defined]
        decided = reconcile._decided

        def checked(plan: Plan, *more: object) -> None:
            decided(plan, *more)
            self._decided(plane, plan)

        reconcile._decided = checked

    def _note_told(self, plane: Plane, node: str) -> None:
        """Note what a node runs, when its stream ends; forget it when another begins."""
        seen, key = plane.fleet._nodes.get(node), (id(plane), node)
        if seen is None or seen.connected:
            self._told.pop(key, None)
        elif key not in self._told:
            self._told[key] = {shard: one.state for shard, one in seen.shards.items()}

    def _derived(self, plane: Plane) -> None:
        """What is thought of a node changes nothing of what it said it runs."""
        for node, seen in plane.fleet._nodes.items():
            told = self._told.get((id(plane), node)) if not seen.connected else None
            for shard, state in (told or {}).items():
                now = seen.shards.get(shard)
                if now is not None and now.state != state:
                    replica, rank = shard
                    self.violated(
                        f"books of {plane.server_id}: {replica}/{rank} went from {state} to "
                        f"{now.state} while {node} was away"
                    )

    def _decided(self, plane: Plane, plan: Plan) -> None:
        """No plan starts more than is wanted, or gives up what is needed."""
        self.checks += 1
        starts = Counter(one.model for one in plan.steps if isinstance(one, StartReplica))
        given_up = {one.replica for one in plan.steps if not isinstance(one, StartReplica)}
        stopped = plane.settings.current.settings.serving.stopped
        replicas = plane.fleet.replicas()
        for entry in plane.catalog.entries() if plan.steps else ():
            model = entry.model.name
            wanted = 0 if stopped else entry.model.profiles[0].replicas
            good = [one.id for one in replicas if self._counts_as(plane, one, model)]
            kept = [one for one in good if one not in given_up]
            there = ", ".join(good) or "none"
            what = f"plan {plan.number} of {plane.server_id}, {wanted} of {model} are wanted"
            if starts[model] and len(good) + starts[model] > wanted:
                self.violated(f"{what}: starts {starts[model]}, and there are {there}")
            if len(kept) < min(wanted, len(good)):
                self.violated(f"{what}: gives up {given_up & set(good)} of {there}")

    def _counts_as(self, plane: Plane, replica: Replica, model: str) -> bool:
        if replica.model != model or replica.state in {FAILED, STOPPED, STUCK, *LEAVING}:
            return False
        if replica.stale:
            return False
        nodes = [plane.fleet.node(shard.node) for shard in replica.shards]
        return all(n is not None and n.liveness != LOST and n.wish != DRAINING for n in nodes)

    def _books(self, plane: Plane) -> None:
        self.checks += 1
        shards = plane.fleet.shards
        for node in plane.fleet._nodes.values():
            held: dict[str, str] = {}
            for placed in shards.held_on(node):
                spec = placed.status.spec
                for device in spec.devices if spec is not None else ():
                    other = held.setdefault(device, placed.status.replica)
                    if other != placed.status.replica:
                        names = f"{other} and {placed.status.replica}"
                        self.violated(f"books of {plane.server_id}: {device} belongs to {names}")

    # At each record.

    def hear(self, said: Said) -> None:
        """Look at what the product says."""
        self.coverage.hear(said)
        words = said.words
        if "fault" in said.fields or (said.level == "error" and words in BAD_WORDS):
            self.violated(f"{said.line()}")
        elif words in {"start_shard", "stop_shard"}:
            self._obeyed(said)
        elif words == "welcomed":
            self._welcomed(said)
        elif words == "settled":
            self._settled(said)
        elif said.fields.get("kind") == "replica" and _HELD.search(words):
            self._refused(said)
        elif words == "command of an older term is declined":
            self.coverage.counts["command of an older term"] += 1
        elif "is not sound and was not carried out" in str(said.fields.get("error", "")):
            self.violated(f"{said.line()}")

    def _refused(self, said: Said) -> None:
        """Give out nothing that is held: an agent's refusal says that the books were wrong.

        Not so where a start was just repeated by the network: nobody could know of that.
        """
        node = str(said.words).partition(" on ")[2].partition(" ")[0].rstrip(":")
        if said.at - self.sim.replays.last.get(node, 0.0) > REPLAYED:
            self.violated(said.line())

    def _obeyed(self, said: Said) -> None:
        node = self.sim.by_host[said.host]
        highest, term = self._terms.get(node.name, 0), said.fields["term"]
        if term < highest:
            self.coverage.counts["command of an older term"] += 1
            what = f"{said.words} {said.fields['shard']}"
            self.violated(f"{node.name} obeys {what} of term {term} after {highest}")

    def _welcomed(self, said: Said) -> None:
        second = int(said.at)
        self._registered[second] += 1
        if self._registered[second] > AT_ONCE:
            self.violated(f"{self._registered[second]} agents registered within one second")

    def _settled(self, said: Said) -> None:
        for head in self.sim.heads:
            plane = head.plane
            if head.host == said.host and plane is not None and plane.term > 1:
                live = [r for r in plane.fleet.replicas() if r.state == READY]
                self.coverage.counts["adopted after a change of leader"] += len(live)

    # At each simulated second.

    def each_second(self) -> None:
        """Check everything that is not a change."""
        self.checks += 1
        if self.sim.loop.faults:
            fault = self.sim.loop.faults[0]
            self.violated(f"nobody caught: {fault.get('message')}: {fault.get('exception')!r}")
        self._look_at_sent()
        for head in self.sim.heads:
            if head.plane is not None:
                self._derived(head.plane)
        self._one_leader()
        self._known()
        self._lost_records()
        self._links()
        for words in (*forgotten(self.sim), *unknown_to_the_leader(self.sim)):
            self.violated(words)
        self._nothing_runs()
        if int(self.sim.loop.time()) % 10 == 0:
            for words in broken_weights(self.sim):
                self.violated(words)
            self._attempts()

    def _attempts(self) -> None:
        """No agent presses on a control plane."""
        attempts = self.sim.network.attempts
        for host, count in attempts.items():
            if count > AGAIN_AND_AGAIN:
                self.violated(f"{host} dialled {count} times within ten seconds")
        attempts.clear()

    def _one_leader(self) -> None:
        leading = [head.name for head in self.sim.heads if head.plane and head.plane.leader]
        if len(leading) > 1:
            self.violated(f"{' and '.join(leading)} lead at once")

    def _look_at_sent(self) -> None:
        for head in self.sim.heads:
            plane = head.plane
            if plane is None:
                continue
            sent, key = plane.executor.sent, id(plane)
            count = self._sent.get(key, 0)
            total = len(sent)
            for one in list(sent)[count:]:
                if one.kind == "stop":
                    self._stops.add(one.replica)
                else:
                    self._started_elsewhere(plane, one.replica, one.node)
                    self.sim.replays.remember(plane, one.term, one.node, one.replica)
                who = self._acting.setdefault(one.term, head.name)
                if who != head.name:
                    self.violated(f"{who} and {head.name} act under term {one.term}")
            self._sent[key] = total

    def _started_elsewhere(self, plane: Plane, replica: str, node: str) -> None:
        model = self.sim.model_of(replica)
        failures = plane.fleet.shards.failures.all()
        if any(f.model == model and f.count >= 3 and f.node != node for f in failures):
            self.coverage.counts["started elsewhere after three failures"] += 1

    def _lost_records(self) -> None:
        """Count the engines that run under an agent that can't describe them."""
        for node in self.sim.nodes:
            if node.agent is not None and not node.frozen:
                for pid in self.sim.faults.excused & node.machine.engines.keys() - self._excused:
                    self._excused.add(pid)
                    self.coverage.counts["record lost under an engine"] += 1

    def _known(self) -> None:
        """Every engine of a node on the leader's stream is known to it, or soon ended."""
        plane, now = self.sim.leader(), self.sim.loop.time()
        for node in self.sim.nodes:
            if plane is None or not plane.agents.connected(node.name) or node.frozen:
                for pid in node.machine.engines:
                    self._unknown.pop(pid, None)
                continue
            seen = plane.fleet._nodes.get(node.name)
            keys = set(seen.shards) if seen is not None else set()
            keys |= {
                (p.spec.replica, p.spec.rank) for p in plane.fleet.shards.pending.on(node.name)
            }
            pids = {s.pid for s in seen.shards.values()} if seen is not None else set()
            for pid, engine in node.machine.engines.items():
                if shard_of(engine.seen.environ) in keys or pid in pids:
                    self._unknown.pop(pid, None)
                elif now - self._unknown.setdefault(pid, now) > UNKNOWN_FOR:
                    self.violated(
                        f"{node.name}: {name_of(engine)} (pid {pid}) runs and is unknown to "
                        f"{plane.server_id} for {UNKNOWN_FOR:g} s"
                    )

    def _links(self) -> None:
        """Both ends of a half-open link notice it in time."""
        left: list[tuple[float, Link]] = []
        for at, link in self.sim.faults.silenced:
            since = self._silent_since(at, link)
            if since is not None:
                left.append((since, link))
        self.sim.faults.silenced[:] = left
        self._clocks()

    def _silent_since(self, at: float, link: Link) -> float | None:
        """Return since when a link is silent that not both ends have noticed; None: they did."""
        now, limit = self.sim.loop.time(), 3 * self.sim.interval + 1.0 + NOTICE
        # One that was deaf in one direction may have become silent in both since.
        at = max(at, link.cut_at or at)
        stuck = [
            side
            for side, end in enumerate(link.ends)
            if not end.lost and not (end.life and (end.life.over or end.life.frozen))
        ]
        if not stuck:
            self.coverage.counts["half-open link noticed"] += 1
            return None
        lives = [end.life for end in link.ends if end.life is not None]
        if any(one.frozen or (one.thawed is not None and one.thawed >= at) for one in lives):
            # Who stood still is given the time anew.
            return now if any(one.frozen for one in lives) else max(at, self._thawed(lives))
        if now - at > limit:
            sides = " and ".join(("agent", "control plane")[side] for side in stuck)
            self.violated(f"link of {link.client} silent for {limit:g} s, {sides} did not see")
        return at

    def _thawed(self, lives: list[Life]) -> float:
        return max(one.thawed or 0.0 for one in lives) + 0.001

    def _clocks(self) -> None:
        """Count the clocks that were set while a stream was open, if it is open still."""
        left, now = [], self.sim.loop.time()
        for at, name in self.sim.faults.jumped:
            node = self.sim.by_name.get(name)
            if node is None:
                continue
            if now - at < 30:
                left.append((at, name))
            elif node.agent is not None and node.agent.dialer._opened_at <= at:
                self.coverage.counts["clock jumped under an open stream"] += 1
        self.sim.faults.jumped[:] = left

    def _nothing_runs(self) -> None:
        """A stopped system has nothing running, where its nodes can be told."""
        now, plane = self.sim.loop.time(), self.sim.leader()
        if not self.sim.operator.stopped or plane is None:
            self._stopped_since = None
            return
        if self._stopped_since is None:
            self._stopped_since = now
        dark = {link.client for link in self.sim.network.live() if link.stalled or any(link.silent)}
        for node in self.sim.nodes:
            cut_off = node.frozen or node.away or node.machine.host in dark
            if cut_off or not plane.agents.connected(node.name):
                self._unreachable_at[node.name] = now
            since = max(self._stopped_since, self._unreachable_at.get(node.name, 0.0))
            engines = node.machine.engines.values()
            left = [one for one in engines if now - max(since, one.began) > STOPPED_WITHIN]
            if left:
                names = ", ".join(name_of(one) for one in left)
                self.violated(f"the system is stopped, and {node.name} runs {names}")


def name_of(engine: Engine) -> str:
    """Return which shard an engine is, as people write it."""
    replica, rank = shard_of(engine.seen.environ) or ("?", 0)
    return f"{replica}/{rank}"
