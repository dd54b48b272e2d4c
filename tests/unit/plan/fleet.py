"""A fleet for planner tests: told in words, carried out without agents, written down as it goes."""

import itertools
from collections.abc import Callable

import msgspec

from llmgw.model.catalog import CatalogEntry, Model, Profile
from llmgw.model.device import Device, DeviceSample
from llmgw.model.node import Host, InstalledEngine, Inventory, Node
from llmgw.model.replica import Replica, ReplicaShard
from llmgw.model.settings import ReconcileSettings, ServingSettings, Settings
from llmgw.model.shard import FAILED, READY, STARTING, STOPPED, ShardSpec
from llmgw.plan.check import check
from llmgw.plan.reconcile import reconcile
from llmgw.plan.records import (
    Booking,
    Desired,
    NodeRoom,
    Observed,
    Plan,
    StartFailure,
    StartReplica,
    StopReplica,
)
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
    more = {key: profile.pop(key) for key in ("source", "roll_when_stale") if key in profile}
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
        self.bookings: dict[str, list[Booking]] = {}
        self.replicas: dict[str, Replica] = {}
        self.specs: dict[tuple[str, int], ShardSpec] = {}
        self.failures: dict[tuple[str, str], StartFailure] = {}
        self.models: dict[str, Model] = {}
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
        profile = one.profiles[0]
        said = {
            name: value
            for name, value in msgspec.structs.asdict(profile).items()
            if value != getattr(Profile(engine=""), name)
        }
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
            self._count_failure(known, reason or "it ended")

    def all_ready(self) -> None:
        for name, replica in sorted(self.replicas.items()):
            if replica.state == STARTING:
                self.state(name, READY)

    def all_stopped(self) -> None:
        for name, replica in sorted(self.replicas.items()):
            if replica.state == "draining":
                self.state(name, STOPPED)

    # What is decided.

    def desired(self) -> Desired:
        entries = tuple(
            CatalogEntry(model=one, version=1, changed=0.0, changed_by="ana")
            for one in self.models.values()
        )
        return Desired(models=entries, settings=self.settings)

    def observed(self) -> Observed:
        waiting = tuple(n.id for n in self.nodes.values() if n.liveness is None)
        return Observed(
            nodes=tuple(
                NodeRoom(
                    node=one,
                    bookings=(*self.bookings.get(one.id, ()), *self._held(one.id)),
                    readings=self.readings.get(one.id),
                )
                for one in self.nodes.values()
            ),
            replicas=tuple(self.replicas.values()),
            failures=tuple(self.failures.values()),
            settled=self.settled,
            waiting_for=waiting,
        )

    def plan(self) -> Plan:
        """Decide, check and write down."""
        self.number += 1
        desired, observed = self.desired(), self.observed()
        plan = reconcile(
            desired,
            observed,
            self.now,
            number=self.number,
            parent=self.number - 1 or None,
            new_id=self._new_id,
        )
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

    def turn(self) -> Plan:
        """Decide and carry out; then deciding again finds nothing more to do."""
        plan = self.plan()
        self.apply(plan)
        again = reconcile(
            self.desired(),
            self.observed(),
            self.now,
            number=self.number + 1,
            parent=self.number,
            new_id=lambda name: f"{name}-again",
        )
        assert again.steps == (), again.sentence
        return plan

    # Inside.

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
            )
            for replica in self.replicas.values()
            for shard in replica.shards
            if shard.node == name and shard.state not in {STOPPED, FAILED}
        ]

    def _start(self, step: StartReplica) -> None:
        spec = step.shards[0].spec
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

    def _stop(self, step: StopReplica) -> None:
        """Take it out of the routes, as the control plane does before it tells the agents.

        Its shards stay as they were reported, but those of a failed replica: their stop is
        reported at once.
        """
        known = self.replicas[step.replica]
        if known.state != FAILED:
            self.replicas[step.replica] = msgspec.structs.replace(known, state="draining")
            return
        told = set(step.shards)
        shards = tuple(
            msgspec.structs.replace(shard, state="stopping")
            if (shard.node, shard.rank) in told
            else shard
            for shard in known.shards
        )
        self.replicas[step.replica] = msgspec.structs.replace(known, shards=shards)

    def _count_failure(self, replica: Replica, words: str) -> None:
        key = (replica.model or "", replica.shards[0].node)
        count = self.failures[key].count + 1 if key in self.failures else 1
        self.failures[key] = StartFailure(
            model=key[0], node=key[1], count=count, last=self.now, words=words
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
