"""Something bad never happens, over any sequence of passes and of what befalls a fleet."""

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from llmgw.model.catalog import BETTER, ORIGINAL, REPLACE, Disconnect, Scaling
from llmgw.model.device import DeviceSample, ForeignProcess
from llmgw.model.shard import FAILED, STOPPED, STUCK
from llmgw.plan.records import EvictReplica, PreemptReplica, StartReplica
from tests.unit.plan.fleet import Fleet, gpu, mig, model, node

NODES = ("n1", "n2", "n3", "n4")
MODELS = ("m1", "m2", "m3")
MIG_CLASS = "a100-80g-mig-3g.40gb"

node_kinds = st.sampled_from(("cpu", "small", "gpu2", "gpu4", "mixed", "mig", "old"))
profiles = st.fixed_dictionaries(
    {
        "gpus": st.sampled_from((0, 0, 1, 1, 2)),
        "replicas": st.integers(0, 3),
        "min_memory_gb": st.sampled_from((None, 4, 20)),
        "cpu_cores": st.sampled_from((None, 2, 6)),
        "device_classes": st.sampled_from(((), (), ("h100-80g",), ("a100-80g",), (MIG_CLASS,))),
        "context": st.sampled_from((None, 4096, 8192)),
        "priority": st.integers(0, 2),
        "roll_when_stale": st.booleans(),
        "disconnect": st.sampled_from(
            (
                Disconnect(),
                Disconnect(policy=REPLACE, after=0),
                Disconnect(policy=REPLACE, after=100, on_return=ORIGINAL),
                Disconnect(policy=REPLACE, after=0, on_return=BETTER),
            )
        ),
        "max_replicas": st.sampled_from((None, 4)),
        "scaling": st.sampled_from(
            (None, None, Scaling(in_flight=2, window=0, down_window=5, idle_stop=300))
        ),
    }
)


def made(name: str, kind: str):
    match kind:
        case "cpu":
            return node(name, memory_gb=32, cpus=8)
        case "small":
            return node(name, memory_gb=8, cpus=4)
        case "gpu2":
            return node(name, devices=2)
        case "gpu4":
            return node(name, devices=4, memory_gb=256)
        case "mixed":
            return node(name, devices=(gpu(name, 0), gpu(name, 1, "a100-80g")))
        case "mig":
            card = gpu(name, 0, "a100-80g", mig_enabled=True)
            return node(name, devices=(card, mig(name, 0, 0), mig(name, 0, 1), gpu(name, 1)))
        case _:
            return node(name, memory_gb=None, cpus=None, engines=None)


class AnyFleet(RuleBasedStateMachine):
    """`Fleet.turn` itself asserts that a plan passes its check and that a second one is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet()

    def replicas(self, *states: str) -> list[str]:
        return sorted(r.id for r in self.fleet.replicas.values() if r.state in states)

    @rule(name=st.sampled_from(NODES), kind=node_kinds)
    def join(self, name: str, kind: str) -> None:
        if name not in self.fleet.nodes:
            self.fleet.join(made(name, kind))

    @rule(name=st.sampled_from(MODELS), profile=profiles)
    def serve(self, name: str, profile: dict[str, Any]) -> None:
        self.fleet.serve(model(name, **profile))

    @rule(name=st.sampled_from(MODELS))
    def withdraw(self, name: str) -> None:
        if name in self.fleet.models:
            self.fleet.withdraw(name)

    @rule()
    def turn(self) -> None:
        self.fleet.turn()

    @precondition(lambda self: self.replicas("starting"))
    @rule(data=st.data(), state=st.sampled_from(("ready", "ready", FAILED)))
    def begin(self, data: st.DataObject, state: str) -> None:
        self.fleet.state(data.draw(st.sampled_from(self.replicas("starting"))), state, "why")

    @precondition(lambda self: self.replicas("ready"))
    @rule(data=st.data(), state=st.sampled_from((STUCK, FAILED, STOPPED)))
    def break_down(self, data: st.DataObject, state: str) -> None:
        self.fleet.state(data.draw(st.sampled_from(self.replicas("ready"))), state, "why")

    @precondition(lambda self: self.replicas("draining"))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        self.fleet.state(data.draw(st.sampled_from(self.replicas("draining"))), STOPPED)

    @precondition(lambda self: self.fleet.nodes)
    @rule(
        data=st.data(),
        liveness=st.sampled_from(("ready", "ready", "unreachable", "lost", None)),
        wish=st.sampled_from((None, None, "cordoned", "draining")),
    )
    def befall(self, data: st.DataObject, liveness: str | None, wish: str | None) -> None:
        name = data.draw(st.sampled_from(sorted(self.fleet.nodes)))
        self.fleet.change(name, liveness=liveness, wish=wish)

    @precondition(lambda self: self.fleet.nodes)
    @rule(data=st.data(), unhealthy=st.booleans())
    def spoil_a_device(self, data: st.DataObject, unhealthy: bool) -> None:
        one = self.fleet.nodes[data.draw(st.sampled_from(sorted(self.fleet.nodes)))]
        devices = one.inventory.devices or ()
        if not devices:
            return
        device = data.draw(st.sampled_from(devices))
        if unhealthy:
            bad = msgspec.structs.replace(device, unhealthy=("xid 79",))
            rest = tuple(bad if other is device else other for other in devices)
            self.fleet.change_inventory(one.id, devices=rest)
        else:
            stranger = (ForeignProcess(pid=1, command="x"),)
            self.fleet.readings[one.id] = (DeviceSample(uuid=device.uuid, foreign=stranger),)

    @precondition(lambda self: self.replicas("ready", "draining"))
    @rule(data=st.data(), requests=st.sampled_from((0, 1, 5, None)))
    def load(self, data: st.DataObject, requests: int | None) -> None:
        name = data.draw(st.sampled_from(self.replicas("ready", "draining")))
        self.fleet.busy(name, requests)

    @rule(name=st.sampled_from(MODELS), requests=st.integers(0, 2))
    def ask(self, name: str, requests: int) -> None:
        self.fleet.waiting(name, requests)

    @rule(seconds=st.sampled_from((1, 10, 400)), stopped=st.booleans())
    def pass_time(self, seconds: int, stopped: bool) -> None:
        self.fleet.wait(seconds)
        self.fleet.stop_cluster(stopped and seconds == 1)

    @invariant()
    def no_device_is_held_twice(self) -> None:
        held: set[tuple[str, str]] = set()
        for one in self.fleet.observed().nodes:
            cards = {d.uuid: d.card_uuid for d in one.node.inventory.devices or ()}
            for booking in one.bookings:
                for uuid in booking.devices:
                    assert uuid in cards
                    assert (one.node.id, uuid) not in held
                    held.add((one.node.id, uuid))
            for uuid in [uuid for name, uuid in held if name == one.node.id]:
                assert (one.node.id, cards[uuid]) not in held

    @invariant()
    def no_memory_and_no_core_is_given_out_twice(self) -> None:
        for one in self.fleet.observed().nodes:
            host = one.node.inventory.host
            if host is None or host.memory_bytes is None or host.cpus is None:
                continue
            assert sum(b.memory_bytes or 0 for b in one.bookings) <= host.memory_bytes
            assert sum(b.cpu_cores or 0 for b in one.bookings) <= host.cpus

    @invariant()
    def a_fleet_left_alone_comes_to_rest(self) -> None:
        assert len(self.fleet.replicas) < 200


TestAnyFleet = AnyFleet.TestCase
TestAnyFleet.settings = settings(stateful_step_count=40)


class Settled(AnyFleet):
    """After faults stop, everything that fits runs, and nothing is left to do."""

    def teardown(self) -> None:
        fleet = self.fleet
        for name, one in list(fleet.nodes.items()):
            fleet.change(name, liveness="ready", wish=None)
            devices = tuple(
                msgspec.structs.replace(device, unhealthy=())
                for device in one.inventory.devices or ()
            )
            fleet.change_inventory(name, devices=devices)
        fleet.readings.clear()
        fleet.in_flight.clear()
        fleet.queued.clear()
        fleet.stop_cluster(stopped=False)
        plan = None
        started: set[str] = set()
        for turn in range(60):
            fleet.wait(400)
            plan = fleet.turn()
            gone = {s.replica for s in plan.steps if isinstance(s, EvictReplica | PreemptReplica)}
            assert not gone & started, "nothing happened, and what was just started has to go"
            started |= {s.replica for s in plan.steps if isinstance(s, StartReplica)}
            fleet.all_stopped()
            fleet.all_ready()
            if not plan.steps and not self.replicas("starting", "draining") and turn > 2:
                break
        assert plan is None or plan.steps == (), plan.sentence
        refused = {refusal.model for refusal in plan.refusals} if plan else set()
        for name, wanted_model in fleet.models.items():
            runs = [r for r in fleet.replicas.values() if r.model == name and r.state == "ready"]
            scaled = fleet.scales.get((name, "default"))
            wanted = scaled.wanted if scaled else wanted_model.profiles[0].replicas
            assert len(runs) == wanted or (name in refused and len(runs) < wanted)


TestSettled = Settled.TestCase
TestSettled.settings = settings(stateful_step_count=25)
