"""A message that is too large for the link costs a part, through the link's own codec."""

import asyncio

import msgspec
import pytest
from structlog.testing import capture_logs

from llmgw.base.errors import Refused
from llmgw.link import codec
from llmgw.link.guard import MESSAGE_LIMIT
from llmgw.link.stream import Stream
from llmgw.model.device import Device, DeviceHealth, DeviceSample, ForeignProcess, Xid
from llmgw.model.fabric import Port
from llmgw.model.link import AgentControl, AgentMessage
from llmgw.model.node import (
    Heartbeat,
    Host,
    Inventory,
    NodeWarning,
    ProbeState,
    Register,
    Sensor,
    WeightsHeld,
)
from llmgw_agent.outgoing import Outgoing
from tests.fakes.agent import FakeAgent, MemoryStream, welcome
from tests.fakes.clock import FakeClock, settle
from tests.only import only

LONG = "x" * 4000
MANY_WEIGHTS = tuple(WeightsHeld(name=f"{number:0>4096}") for number in range(2048))
"""Just over the limit, with as many and as long names as there may be."""
GARBLED = tuple(Device(uuid=f"GPU-{number}", unhealthy=(LONG,) * 30) for number in range(100))
"""Of 12 MB."""


class Link:
    """The agent's side of the link up to the bytes, and the control plane's from there on."""

    def __init__(self, clock: FakeClock) -> None:
        self.stream: Stream[AgentControl, AgentMessage] = Stream(
            AgentControl, peer="control", clock=clock, silence=20.0
        )
        self.outgoing = Outgoing(self.stream.send)

    def heard(self) -> list[AgentMessage]:
        """Return what arrives of all that was sent since the last time."""
        found = []
        while not self.stream._outbox.empty():
            data = self.stream._outbox.get_nowait()
            assert data is not None
            assert len(data) <= MESSAGE_LIMIT
            self.stream._waiting -= len(data)
            found.append(codec.decode(data, AgentMessage))
        return found

    def beat(self, **said: object) -> Heartbeat:
        self.outgoing.heartbeat(Heartbeat(sequence=1, **said))  # type: ignore[arg-type]
        heartbeat = only(self.heard()).heartbeat
        assert heartbeat is not None
        return heartbeat

    def register(self, **said: object) -> Inventory:
        inventory = Inventory(**said)  # type: ignore[arg-type]
        self.outgoing.register(Register(node="n1", boot="b1", inventory=inventory))
        register = only(self.heard()).register
        assert register is not None
        assert (register.node, register.boot) == ("n1", "b1")
        assert register.inventory is not None
        return register.inventory


@pytest.fixture
def link(clock: FakeClock) -> Link:
    return Link(clock)


def errors(heartbeat: Heartbeat) -> dict[str, str]:
    return {state.name: state.error for state in heartbeat.probes or () if state.error is not None}


def test_what_fits_is_sent_as_it_is(link: Link):
    probes = (ProbeState(name="gpus", age=1.0),)
    heartbeat = Heartbeat(sequence=3, cpu_percent=5.0, devices=(), probes=probes)
    link.outgoing.heartbeat(heartbeat)
    register = Register(node="n1", inventory=Inventory(devices=(), host=Host(hostname="n1")))
    link.outgoing.register(register)
    link.outgoing.inventory(Inventory(ports=()))
    assert link.heard() == [
        AgentMessage(heartbeat=heartbeat),
        AgentMessage(register=register),
        AgentMessage(inventory=Inventory(ports=())),
    ]


def test_a_heartbeat_over_the_limit_loses_its_largest_part_and_says_which(link: Link):
    with pytest.raises(Refused, match="is the limit"):
        link.stream.send(AgentMessage(heartbeat=Heartbeat(sequence=1, weights=MANY_WEIGHTS)))
    told = link.beat(
        cpu_percent=5.0,
        sensors=(Sensor(kind="power", label="cpu 0 package", value=90.0),),
        weights=MANY_WEIGHTS,
        probes=(ProbeState(name="gpus", age=1.0),),
    )
    assert (told.cpu_percent, told.weights) == (5.0, None)
    assert only(told.sensors).value == 90.0
    words = only([*errors(told).values()])
    assert "agent" in errors(told)
    assert words.startswith(
        "left out, for there is more than is told: all of weights (a message of"
    )
    assert "8388608 is the limit" in words


def test_as_many_parts_are_left_out_as_it_takes(link: Link):
    health = tuple(
        DeviceHealth(
            uuid=f"GPU-{number}",
            xids=tuple(Xid(code=code, count=1, words=LONG) for code in range(30)),
        )
        for number in range(100)
    )
    told = link.beat(cpu_percent=5.0, weights=MANY_WEIGHTS, health=health, ports=())
    assert (told.cpu_percent, told.weights, told.health, told.ports) == (5.0, None, None, ())
    assert errors(told).keys() == {"agent", "gpu-health"}


def test_a_register_over_the_limit_registers_and_heartbeats_say_what_it_lacks(link: Link):
    port = Port(adapter="mlx5_0", number=1)
    inventory = link.register(devices=GARBLED, host=Host(hostname="n1"), ports=(port,))
    assert inventory == Inventory(host=Host(hostname="n1"), ports=(port,))
    for _ in range(2):
        told = link.beat(probes=(ProbeState(name="gpus", age=1.0, error="it is odd"),))
        assert errors(told)["gpus"].startswith("it is odd; left out, for there is more")
    link.outgoing.inventory(Inventory(ports=()))
    link.heard()
    assert "gpus" in errors(link.beat())
    link.outgoing.inventory(Inventory(devices=()))
    link.heard()
    assert errors(link.beat()) == {}


def test_a_change_over_the_limit_is_left_out_alone(link: Link):
    link.outgoing.inventory(Inventory(devices=GARBLED, ports=()))
    assert only(link.heard()).inventory == Inventory(ports=())
    assert "all of devices" in errors(link.beat())["gpus"]


def test_lists_are_cut_where_the_control_plane_would_cut_them(link: Link):
    foreign = tuple(ForeignProcess(pid=pid, memory_bytes=pid) for pid in range(1, 400))
    told = link.beat(
        devices=(DeviceSample(uuid="GPU-1", foreign=foreign),),
        sensors=tuple(Sensor(kind="power", label=str(number)) for number in range(3000)),
    )
    assert len(only(told.devices).foreign or ()) == 256
    assert len(told.sensors or ()) == 1024
    assert errors(told)["gpu-use"].endswith("of devices.foreign (at most 256)")
    assert errors(told)["sensors"].endswith("of sensors (at most 1024)")
    inventory = link.register(
        warnings=tuple(NodeWarning(subject="gpu", words=str(number)) for number in range(500))
    )
    assert len(inventory.warnings or ()) == 64
    assert errors(link.beat())["agent"].endswith("of warnings (at most 64)")


def test_more_items_than_the_control_plane_reads_are_too_many(link: Link):
    xids = tuple(Xid(code=code, count=1) for code in range(120))
    health = tuple(DeviceHealth(uuid=f"GPU-{number}", xids=xids) for number in range(200))
    told = link.beat(cpu_percent=5.0, health=health)
    assert (told.cpu_percent, told.health) == (5.0, None)
    assert "items, and 20000 is the limit" in errors(told)["gpu-health"]


def test_a_value_that_no_message_can_hold_costs_its_part_alone(link: Link):
    told = link.beat(
        cpu_percent=5.0,
        devices=(DeviceSample(uuid="GPU-1", memory_used_bytes=1 << 70),),
        sensors=(Sensor(kind="power", label="a" * 200_000),),
    )
    assert (told.cpu_percent, told.devices) == (5.0, None)
    assert told.sensors is not None
    inventory = link.register(devices=(Device(uuid="GPU-1", number=1 << 64),), ports=())
    assert inventory == Inventory(ports=())
    assert "all of devices" in errors(link.beat())["gpus"]


def test_what_is_left_out_is_logged_once_and_that_it_is_told_again(link: Link):
    with capture_logs() as lines:
        for weights in (MANY_WEIGHTS, None, MANY_WEIGHTS, None, (), None):
            link.beat(weights=weights)
    assert [line["event"] for line in lines] == [
        "not all that is known here is told",
        "all that is known here is told again",
    ]
    assert lines[0]["left_out"][0].startswith("all of weights (a message of ")


def test_weights_are_left_out_until_they_are_told_again(link: Link):
    for weights, told in ((MANY_WEIGHTS, False), (None, False), ((), True), (None, True)):
        assert (errors(link.beat(weights=weights)) == {}) is told


class NarrowStream(MemoryStream):
    """A stream in memory that refuses what the link's own refuses."""

    def send(self, record: AgentMessage) -> None:
        size = len(codec.encode(record))
        if size > MESSAGE_LIMIT:
            raise Refused(f"a message of {size} bytes, and {MESSAGE_LIMIT} is the limit")
        super().send(record)


async def test_a_node_that_has_too_much_to_tell_registers_and_beats(clock: FakeClock):
    agent, stream = FakeAgent(clock), NarrowStream()
    host = Host(hostname="gpu-01")
    agent.facts.recorded = Inventory(host=host, devices=GARBLED)
    agent.facts.reading = Heartbeat(sequence=0, cpu_percent=5.0)
    agent.weights.sets = MANY_WEIGHTS
    task = asyncio.ensure_future(agent.core.session(stream))
    await settle()
    stream.say(welcome())
    await clock.advance(12)
    agent.facts.recorded = Inventory(host=host, devices=GARBLED[1:], ports=())
    await clock.advance(12)
    stream.end()
    await task
    register = stream.sent[0].register
    assert register is not None
    assert register.inventory is not None
    assert (register.inventory.host, register.inventory.devices) == (host, None)
    beats = [message.heartbeat for message in stream.sent if message.heartbeat is not None]
    assert [(beat.cpu_percent, beat.weights) for beat in beats] == [(5.0, None)] * len(beats)
    assert [errors(beat).keys() for beat in beats] == [{"gpus", "agent"}] * len(beats)
    assert len(beats) >= 4
    changes = [message.inventory for message in stream.sent if message.inventory is not None]
    assert changes == [Inventory(ports=())]


def test_a_record_that_was_made_to_fit_is_another(link: Link):
    heartbeat = Heartbeat(sequence=1, weights=MANY_WEIGHTS)
    before = msgspec.structs.asdict(heartbeat)
    link.outgoing.heartbeat(heartbeat)
    assert msgspec.structs.asdict(heartbeat) == before
