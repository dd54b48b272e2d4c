"""A fleet for planner tests: told in words, carried out without agents, written down as it goes."""

import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from llmgw.model.catalog import CatalogEntry, Model, Profile
from llmgw.model.device import Device, DeviceSample
from llmgw.model.node import LOST, UNREACHABLE, Host, InstalledEngine, Inventory, Node
from llmgw.model.replica import Replica, ReplicaShard
from llmgw.model.settings import ReconcileSettings, ServingSettings, Settings
from llmgw.model.shard import FAILED, READY, STARTING, STOPPED, ShardSpec
from llmgw.model.weights import held_as
from llmgw.plan.check import check
from llmgw.plan.drain import LEAST
from llmgw.plan.massloss import WITHIN, Silent, Together, described, follow
from llmgw.plan.reconcile import reconcile
from llmgw.plan.records import (
    Booking,
    Demand,
    Desired,
    Drain,
    DrainReplica,
    EvictReplica,
    KeepReplica,
    Load,
    MassLoss,
    NodeRoom,
    Observed,
    Plan,
    PreemptReplica,
    StartFailure,
    StartReplica,
    StopReplica,
)
from llmgw.plan.scaling import Key, Scale, wants
from llmgw.plan.waking import woken
from llmgw.plan.words import device_name

GB = 10**9
LLAMACPP = InstalledEngine(engine="llamacpp", version="0.10434.0", state="installed")
H100 = "h100-80g"


def gpu(node: str, number: int, device_class: str = H100, **more) -> Device:
    """A healthy card."""
    return Device(
        uuid=f"GPU-{node}-{number}",
        kind="gpu",
        number=number,
        device_class=device_class,
        memory_bytes=80 * GB,
        unhealthy=more.pop("unhealthy", ()),
        **more,
    )


def mig(node: str, card: int, instance: int, **more) -> Device:
    """A MIG instance."""
    return Device(
        uuid=f"MIG-{node}-{card}-{instance}",
        kind="mig",
        number=1000 + 100 * card + instance,
        device_class="a100-80g-mig-3g.40gb",
        card_uuid=f"GPU-{node}-{card}",
        unhealthy=(),
        **more,
    )


def node(
    name: str,
    *,
    memory_gb: float | None = 64,
    cpus: int | None = 16,
    devices: tuple[Device, ...] | int = (),
    engines: tuple[InstalledEngine, ...] | None = (LLAMACPP,),
    inventory: dict[str, object] | None = None,
    **more,
) -> Node:
    """A ready node; `devices` as a number is so many H100s."""
    if isinstance(devices, int):
        devices = tuple(gpu(name, number) for number in range(devices))
    memory = None if memory_gb is None else int(memory_gb * GB)
    there = Inventory(
        host=Host(memory_bytes=memory, cpus=cpus),
        devices=devices,
        engines=engines,
        engines_probed=True,
    )
    return Node(
        id=name,
        liveness=more.pop("liveness", "ready"),
        connected=True,
        address="192.0.2.1",
        since=more.pop("since", 0.0),
        inventory=msgspec.structs.replace(there, **(inventory or {})),
        **more,
    )


def model(name: str, *, profile_name: str = "default", **profile) -> Model:
    """A model with one profile, on the simulated engine unless said."""
    of_model = ("source", "roll_when_stale", "disconnect", "generation")
    more = {key: profile.pop(key) for key in of_model if key in profile}
    return Model(
        name=name,
        profiles=(Profile(**{"name": profile_name, "engine": "simulated", **profile}),),
        **more,
    )


class Fleet:
    """Nodes and what runs on them; `plan` decides, `apply` does it, and `told` has all of it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.nodes: dict[str, Node] = {}
        self.readings: dict[str, tuple[DeviceSample, ...]] = {}
        self.rooms: dict[str, dict[str, Any]] = {}
        """What else is known of nodes: health, cables, whom they are lent to."""
        self.bookings: dict[str, list[Booking]] = {}
        self.replicas: dict[str, Replica] = {}
        self.specs: dict[tuple[str, int], ShardSpec] = {}
        self.failures: dict[tuple[str, str], StartFailure] = {}
        self.drains: dict[str, tuple[float, str]] = {}
        self.successors: list[Key] = []
        self.told_to_stop: set[str] = set()
        self.told_shards: dict[str, set[tuple[str, int]]] = {}
        """Of those in `told_to_stop`, where not all were told."""
        self.in_flight: dict[str, int | None] = {}
        self.together: Together | None = None
        self.queued: dict[str, int] = {}
        self.tokens: dict[str, float] = {}
        self.asked: dict[str, float] = {}
        self.scales: dict[Key, Scale] = {}
        self.models: dict[str, Model] = {}
        self.written: dict[str, float] = {}
        self.settings = Settings(reconcile=ReconcileSettings())
        self.settled = True
        self.told: list[str] = []
        self.number = 0
        self._ids = itertools.count(1)

    # What happens.

    def say(self, text: str) -> None:
        self.told.append(f"> {text}")

    def join(self, *nodes: Node) -> None:
        for one in nodes:
            self.nodes[one.id] = one
            self.say(f"{one.id} joins: {_has(one)}")

    def change(self, name: str, **fields) -> None:
        """Change a node; its `since` follows its liveness."""
        if "liveness" in fields:
            fields.setdefault("since", self.now)
        self.nodes[name] = msgspec.structs.replace(self.nodes[name], **fields)
        self.say(f"{name}: {', '.join(f'{k}={v}' for k, v in fields.items() if k != 'since')}")

    def change_inventory(self, name: str, **fields) -> None:
        inventory = msgspec.structs.replace(self.nodes[name].inventory, **fields)
        self.nodes[name] = msgspec.structs.replace(self.nodes[name], inventory=inventory)
        self.say(f"{name} says {', '.join(fields)} anew")

    def serve(self, one: Model) -> None:
        self.models[one.name] = one
        self.written[one.name] = self.now
        profile = one.profiles[0]
        said = {
            name: value
            for name, value in msgspec.structs.asdict(profile).items()
            if value != getattr(Profile(engine=""), name)
        }
        if one.disconnect != Model(name="", profiles=()).disconnect:
            said["disconnect"] = msgspec.structs.asdict(one.disconnect)
        self.say(f"the catalog has {one.name}: {said}")

    def withdraw(self, name: str) -> None:
        del self.models[name]
        self.say(f"{name} leaves the catalog")

    def stop_cluster(self, stopped: bool = True) -> None:
        serving = ServingSettings(stopped=stopped)
        self.settings = msgspec.structs.replace(self.settings, serving=serving)
        self.say(f"serving.stopped: {stopped}")

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.say(f"{seconds:g}s pass")

    def state(self, replica: str, state: str, reason: str | None = None) -> None:
        """Let a replica come into a state; a stopped one is forgotten, a failed one counts."""
        known = self.replicas[replica]
        self.say(f"{replica} is {state}" + (f": {reason}" if reason else ""))
        if state == STOPPED:
            del self.replicas[replica]
            self.drains.pop(replica, None)
            return
        self.replicas[replica] = msgspec.structs.replace(
            known,
            state=state,
            reason=reason,
            since=self.now,
            shards=tuple(
                msgspec.structs.replace(shard, state=state, port=7500) for shard in known.shards
            ),
        )
        if state == FAILED:
            self._count_failure(known, reason or "it ended", served=known.state == READY)

    def all_ready(self) -> None:
        for name, replica in sorted(self.replicas.items()):
            if replica.state == STARTING:
                self.state(name, READY)

    def busy(self, replica: str, requests: int | None) -> None:
        """Say what a replica has in flight; None: nobody can say."""
        self.in_flight[replica] = requests
        self.say(f"{replica} has {'nobody knows what' if requests is None else requests} in flight")

    def waiting(self, name: str, requests: int) -> None:
        """Say how many requests wait at gateways for a model that nothing serves."""
        self.queued[name] = requests
        self.asked[name] = self.now
        self.say(f"requests that wait for {name}: {requests}")

    def all_stopped(self) -> None:
        """Let what is drained be told to stop, and stop."""
        if any(name not in self.told_to_stop for name in self.drains):
            self.wait(LEAST)
            self.turn()
        for name in sorted(self.told_to_stop & self.replicas.keys()):
            if self.replicas[name].state == "draining":
                self.state(name, STOPPED)

    # What is decided.

    def desired(self) -> Desired:
        entries = tuple(
            CatalogEntry(
                model=one, version=1, changed=self.written.get(one.name, 0.0), changed_by="ana"
            )
            for one in self.models.values()
        )
        return Desired(models=entries, settings=self.settings, wants=wants(self.scales))

    def observed(self) -> Observed:
        waiting = tuple(n.id for n in self.nodes.values() if n.liveness is None)
        return Observed(
            nodes=tuple(
                NodeRoom(
                    node=one,
                    bookings=(*self.bookings.get(one.id, ()), *self._held(one.id)),
                    readings=self.readings.get(one.id),
                    **self.rooms.get(one.id, {}),
                    lost_for=self.now - (one.since or 0.0) if one.liveness == LOST else None,
                )
                for one in self.nodes.values()
            ),
            replicas=tuple(self.replicas.values()),
            failures=tuple(self.failures.values()),
            settled=self.settled,
            waiting_for=waiting,
            drains=tuple(
                Drain(
                    replica=name,
                    words=words,
                    lasts=self.now - since,
                    told=name in self.told_to_stop,
                    told_before=name in self.told_to_stop,
                    told_shards=self._told_shards(name),
                )
                for name, (since, words) in sorted(self.drains.items())
            ),
            successors=tuple(sorted(self.successors)),
            loads=tuple(
                Load(replica=name, in_flight=self.in_flight.get(name, 0)) for name in self.replicas
            ),
            demands=self._demands(),
            mass_loss=self._mass_loss(),
        )

    def _demands(self) -> tuple[Demand, ...]:
        for replica in self.replicas.values():
            if replica.model is not None and self.in_flight.get(replica.id, 0) != 0:
                self.asked[replica.model] = self.now
        return tuple(
            Demand(
                model=name,
                queued=self.queued.get(name, 0),
                tokens_per_second=self.tokens.get(name),
                idle_for=self.now - self.asked[name] if name in self.asked else None,
            )
            for name in self.models
        )

    def _mass_loss(self) -> MassLoss | None:
        silent = [
            Silent(node=one.id, since=one.since or 0.0, lost=one.liveness == LOST, heard=True)
            for one in self.nodes.values()
            if one.liveness in {LOST, UNREACHABLE}
        ]
        self.together = follow(
            self.together,
            silent,
            len(self.nodes) - len(silent),
            within=WITHIN,
            now=self.now,
            settling=self.settings.reconcile.settling,
        )
        of = len(self.nodes)
        return described(self.together, silent, of) if self.together is not None else None

    def plan(self) -> Plan:
        """Decide, check and write down."""
        self.number += 1
        desired, observed = self.desired(), self.observed()
        if self.settled:
            ids = itertools.count(1)
            self.scales = woken(
                self.scales,
                desired,
                observed,
                self.now,
                self.now,
                lambda told: self._decided(told, observed, lambda name: f"{name}-{next(ids)}"),
            )
            desired = self.desired()
        plan = self._decided(desired, observed, self._new_id)
        self._write_down(plan)
        assert check(plan, desired, observed) == ()
        return plan

    def apply(self, plan: Plan) -> None:
        for step in plan.steps:
            match step:
                case StartReplica():
                    self._start(step)
                case StopReplica():
                    self._stop(step)
                case DrainReplica(for_successor=True):
                    known = self.replicas[step.replica]
                    self.successors.append((known.model or "", known.profile or ""))
                    self._drain(step.replica, step.words)
                case DrainReplica() | EvictReplica() | PreemptReplica():
                    self._drain(step.replica, step.words)
                case KeepReplica():
                    self._go_on(step.replica)

    def turn(self) -> Plan:
        """Decide and carry out; then deciding again finds nothing more to do."""
        plan = self.plan()
        self.apply(plan)
        again = self._decided(self.desired(), self.observed(), lambda name: f"{name}-again")
        assert again.steps == (), again.sentence
        return plan

    # Inside.

    def _decided(self, desired: Desired, observed: Observed, new_id: Callable[[str], str]) -> Plan:
        return reconcile(
            desired,
            observed,
            self.now,
            number=self.number,
            parent=self.number - 1 or None,
            new_id=new_id,
        )

    def _new_id(self, name: str) -> str:
        return f"{name}-{next(self._ids):06}"

    def _held(self, name: str) -> list[Booking]:
        return [
            Booking(
                replica=replica.id,
                rank=shard.rank,
                model=replica.model,
                devices=shard.devices,
                memory_bytes=shard.memory_bytes,
                cpu_cores=shard.cpu_cores,
                **(self._fetched(replica.id, shard.rank) if shard.state == STARTING else {}),
            )
            for replica in self.replicas.values()
            for shard in replica.shards
            if shard.node == name and shard.state not in {STOPPED, FAILED}
        ]

    def _fetched(self, replica: str, rank: int) -> dict[str, Any]:
        spec = self.specs.get((replica, rank))
        if spec is None or spec.source is None:
            return {}
        return {"weights": held_as(spec.source), "disk_bytes": spec.disk_bytes}

    def _start(self, step: StartReplica) -> None:
        spec = step.shards[0].spec
        if (step.model, step.profile) in self.successors:
            self.successors.remove((step.model, step.profile))
        self.specs |= {(step.replica, one.spec.rank): one.spec for one in step.shards}
        self.replicas[step.replica] = Replica(
            id=step.replica,
            model=step.model,
            profile=step.profile,
            engine=spec.engine,
            fingerprint=spec.fingerprint,
            state=STARTING,
            since=self.now,
            shards=tuple(
                ReplicaShard(
                    rank=one.spec.rank,
                    node=one.node,
                    state=STARTING,
                    devices=one.spec.devices,
                    address="192.0.2.1",
                    memory_bytes=one.spec.memory_bytes,
                    cpu_cores=one.spec.cpu_cores,
                )
                for one in step.shards
            ),
        )

    def _drain(self, replica: str, words: str) -> None:
        """Take it out of the routes, as the control plane does: its shards stay as they are."""
        known = self.replicas[replica]
        self.replicas[replica] = msgspec.structs.replace(known, state="draining")
        self.drains.setdefault(replica, (self.now, words))

    def _told_shards(self, replica: str) -> tuple[tuple[str, int], ...]:
        if replica not in self.told_to_stop:
            return ()
        known = self.replicas.get(replica)
        every = {(shard.node, shard.rank) for shard in known.shards} if known is not None else set()
        return tuple(sorted(self.told_shards.get(replica, every)))

    def _go_on(self, replica: str) -> None:
        """Return it to the routes."""
        known = self.replicas[replica]
        self.replicas[replica] = msgspec.structs.replace(known, state=READY)
        del self.drains[replica]

    def _stop(self, step: StopReplica) -> None:
        """Tell its nodes; of a failed replica the stop of what is left is reported at once."""
        known = self.replicas[step.replica]
        if known.state != FAILED:
            self._drain(step.replica, step.words)
            self.told_to_stop.add(step.replica)
            self.told_shards.setdefault(step.replica, set()).update(step.shards)
            return
        told = set(step.shards)
        shards = tuple(
            msgspec.structs.replace(shard, state="stopping")
            if (shard.node, shard.rank) in told
            else shard
            for shard in known.shards
        )
        self.replicas[step.replica] = msgspec.structs.replace(known, shards=shards)

    def _count_failure(self, replica: Replica, words: str, *, served: bool) -> None:
        key = (replica.model or "", replica.shards[0].node)
        known = self.failures.get(key)
        self.failures[key] = StartFailure(
            model=key[0],
            node=key[1],
            count=known.count + 1 if known else 1,
            last=self.now,
            words=words,
            served=served,
            served_first=known.served_first if known else served,
        )

    def _write_down(self, plan: Plan) -> None:
        names = {
            device.uuid: device_name(device)
            for one in self.nodes.values()
            for device in one.inventory.devices or ()
        }
        self.told.append(f"plan {plan.number} after {plan.parent or '-'}: {plan.sentence}")
        for step in plan.steps:
            match step:
                case StartReplica():
                    for one in step.shards:
                        devices = " ".join(names[uuid] for uuid in one.spec.devices) or "CPU"
                        self.told.append(f"  start {step.replica} on {one.node} [{devices}]")
                    self.told.append(f"    {step.words}")
                case StopReplica():
                    where = ", ".join(f"{rank} on {node}" for node, rank in step.shards)
                    self.told.append(f"  stop {step.replica} (shard {where})")
                    self.told.append(f"    {step.words}")
                case EvictReplica() | PreemptReplica():
                    verb = "evict" if isinstance(step, EvictReplica) else "pre-empt"
                    self.told.append(f"  {verb} {step.replica} for {step.gives_way_to[0]}")
                    self.told.append(f"    {step.words}")
                case DrainReplica() | KeepReplica():
                    verb = "drain" if isinstance(step, DrainReplica) else "keep"
                    self.told.append(f"  {verb} {step.replica}")
                    self.told.append(f"    {step.words}")
        for refusal in plan.refusals:
            self.told.append(f"  refused {refusal.model}/{refusal.profile}")
            for candidate in refusal.candidates:
                verdict = candidate.verdict
                self.told.append(f"    {verdict.kind} by {verdict.rule}: {verdict.words}")


def _has(one: Node) -> str:
    host = one.inventory.host
    memory = host.memory_bytes if host else None
    devices = one.inventory.devices
    parts = [
        f"{memory / GB:g} GB" if memory is not None else "memory not said",
        f"{host.cpus} CPUs" if host and host.cpus is not None else "CPUs not said",
        f"{len(devices)} devices" if devices is not None else "devices not said",
    ]
    return ", ".join(parts)


Script = Callable[[], Fleet]
