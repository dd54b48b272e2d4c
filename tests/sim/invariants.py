"""What has to hold at every moment."""

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from llmgw.control.plane import Plane
from llmgw.local.sim.engine import Engine
from llmgw.local.sim.machine import Machine
from llmgw.model.feed import NODES, REPLICAS
from llmgw.model.shard import READY
from llmgw.plan.records import Desired, Plan
from tests.sim.coverage import Coverage
from tests.sim.node import MEMORY_KIB, STATE
from tests.sim.promises import broken_weights, forgotten, unknown_to_the_leader
from tests.sim.rules import name_of
from tests.sim.rules_of_books import RulesOfBooks
from tests.sim.rules_of_links import RulesOfLinks
from tests.sim.rules_of_plans import RulesOfPlans
from tests.sim.rules_of_requests import RulesOfRequests
from tests.sim.watch import Said

if TYPE_CHECKING:
    from tests.sim.simulation import Simulation

STOPPED_WITHIN = 100.0
"""Seconds after which a stopped system has nothing running on nodes that were reachable: what
serves has the limit of a drain first."""

REPLAYED = 120.0
"""Seconds after a repeated start in which its node may hold what nobody meant it to."""
_HELD = re.compile(r"failed on .*(: held by .*, which is|of memory is not reserved)")

BAD_WORDS = ("pass failed", "command failed", "stream failed", "a fault of the agent's")
"""Records that are always a mistake of the product when an error comes with them."""


@dataclass
class Invariants:
    """Checks one run; the first violation ends it."""

    sim: "Simulation"
    coverage: Coverage
    checks: int = 0
    _acting: dict[int, str] = field(default_factory=dict)
    _sent: dict[int, int] = field(default_factory=dict)
    _stops: set[str] = field(default_factory=set)
    _terms: dict[str, int] = field(default_factory=dict)
    _versions: dict[str, int] = field(default_factory=dict)
    _stopped_since: float | None = None
    _excused: set[int] = field(default_factory=set)
    _termed: set[int] = field(default_factory=set)
    _unreachable_at: dict[str, float] = field(default_factory=dict)
    broken: str | None = None
    """The first violation: it may be found in the middle of somebody's step."""

    def __post_init__(self) -> None:
        self.books = RulesOfBooks(self.sim, self.coverage, self.violated)
        self.links = RulesOfLinks(self.sim, self.coverage, self.violated)
        self.plans = RulesOfPlans(self.sim, self.coverage, self.violated)
        self.requests = RulesOfRequests(self.sim, self.coverage, self.violated)

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
        # What nobody can describe any more reserves nothing in any book until it is gone.
        described = machine.engines.keys() - self.sim.faults.programs.excused
        reserved = sum(self.sim.reserves(machine.engines[pid]) for pid in described)
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
        if not engine.healthy or engine.seen.pid in self.sim.faults.programs.excused:
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
                self.checks += 1
                self.books.replicas_changed(plane)
            elif topic == NODES:
                self.books.node_changed(plane, object_id)

        plane.feed.mark = marked  # type: ignore[method-assign]
        reconcile = plane.passes["reconcile"]._run.__self__  # type: ignore[attr-defined]
        decided: Callable[[Plan, Desired], None] = reconcile._decided

        def checked(plan: Plan, desired: Desired) -> None:
            self.checks += 1
            decided(plan, desired)
            self.plans.decided(plane, plan, desired)

        reconcile._decided = checked

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
            self.links.welcomed(said)
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
                self.books.each_second(head.plane)
        self._one_leader()
        self.books.known()
        self._lost_records()
        self.links.each_second()
        self.requests.each_second()
        for words in (*forgotten(self.sim), *unknown_to_the_leader(self.sim)):
            self.violated(words)
        self._nothing_runs()
        if int(self.sim.loop.time()) % 10 == 0:
            for words in broken_weights(self.sim):
                self.violated(words)
            self.links.attempts()

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
                for pid in (
                    self.sim.faults.programs.excused & node.machine.engines.keys() - self._excused
                ):
                    self._excused.add(pid)
                    self.coverage.counts["record lost under an engine"] += 1

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
