"""Of what another machine says so much is taken and no more, whatever it is."""

import time

import msgspec
import pytest
from hypothesis import given

from llmgw.link.codec import LIST_MOST
from llmgw.model import bounds
from llmgw.model.bounds import NAME, PROSE, bounded, shortened
from llmgw.model.commands import Declined, Reply
from llmgw.model.device import Device, DeviceHealth, DeviceSample, ForeignProcess, Xid
from llmgw.model.fabric import Port
from llmgw.model.gateway import EndpointDown
from llmgw.model.keys import UsageReport, UsageTotals
from llmgw.model.link import AgentMessage, GatewayMessage
from llmgw.model.node import Heartbeat, Inventory, NodeWarning, ProbeState, Register
from llmgw.model.shard import ShardSpec, ShardStatus
from tests.unit.proto.messages import any_record

LONG = "x" * 1_000_000


def beat(**said: object) -> AgentMessage:
    return AgentMessage(heartbeat=Heartbeat(sequence=1, **said))  # type: ignore[arg-type]


@given(any_record(AgentMessage))
def test_a_message_within_all_bounds_is_taken_as_it_is(message: AgentMessage) -> None:
    kept, cut = bounded(message)
    assert kept is message
    assert cut == {}


@pytest.mark.parametrize(
    ("message", "field", "most"),
    [
        (beat(probes=(ProbeState(name="p", error=LONG),)), "heartbeat.probes.error", PROSE),
        (beat(probes=(ProbeState(name=LONG),)), "heartbeat.probes.name", NAME),
        (beat(health=(DeviceHealth(uuid=LONG),)), "heartbeat.health.uuid", NAME),
        (
            AgentMessage(inventory=Inventory(devices=(Device(uuid="G", unhealthy=(LONG,)),))),
            "inventory.devices.unhealthy",
            PROSE,
        ),
        (
            AgentMessage(inventory=Inventory(warnings=(NodeWarning(subject="s", words=LONG),))),
            "inventory.warnings.words",
            PROSE,
        ),
        (AgentMessage(inventory=Inventory(ports=(Port(adapter=LONG, number=1),))),
         "inventory.ports.adapter", NAME),
        (AgentMessage(register=Register(node="n", labels={"a": LONG})), "register.labels", NAME),
        (AgentMessage(shard=ShardStatus(replica="r", reason=LONG)), "shard.reason", PROSE),
        (AgentMessage(shard=ShardStatus(replica="r", last_lines=(LONG,))),
         "shard.last_lines", PROSE),
        (AgentMessage(reply=Reply(id="1", answer=Declined(words=LONG))),
         "reply.answer.words", PROSE),
        (GatewayMessage(endpoint_down=EndpointDown(replica="r", words=LONG)),
         "endpoint_down.words", PROSE),
    ],
)  # fmt: skip
def test_a_long_text_is_cut_and_ends_so_that_one_sees_it(
    message: msgspec.Struct, field: str, most: int
) -> None:
    kept, cut = bounded(message)
    assert list(cut) == [field]
    assert str(most) in cut[field]
    text = msgspec.json.encode(kept).decode()
    assert "x" * (most - 1) + "…" in text
    assert "x" * most not in text


def test_the_start_command_s_own_texts_come_back_whole() -> None:
    spec = ShardSpec(
        replica="r",
        model="m",
        profile="p",
        fingerprint="f",
        engine="vllm",
        arguments=("--template", "t" * 20_000),
    )
    message = AgentMessage(shard=ShardStatus(replica="r", spec=spec))
    assert bounded(message) == (message, {})


def test_of_many_driver_errors_those_that_are_open_and_new_are_kept() -> None:
    old = tuple(Xid(code=code, count=1, last_seen=10.0, cleared=True) for code in range(5000))
    told = (*old, Xid(code=7001, count=1, last_seen=5.0), Xid(code=7002, count=1, last_seen=99.0))
    kept, cut = bounded(beat(health=(DeviceHealth(uuid="G", xids=told),)))
    assert list(cut) == ["heartbeat.health.xids"]
    assert kept.heartbeat is not None
    (health,) = kept.heartbeat.health or ()
    assert [xid.code for xid in health.xids or ()][:3] == [7002, 7001, 0]
    assert len(health.xids or ()) == 128


def test_the_largest_processes_and_the_probes_that_fail_are_kept() -> None:
    processes = tuple(ForeignProcess(pid=pid, memory_bytes=pid) for pid in range(1000))
    probes = tuple(ProbeState(name=f"p{n}", error="e" if n == 4000 else None) for n in range(5000))
    kept, _ = bounded(beat(devices=(DeviceSample(uuid="G", foreign=processes),), probes=probes))
    assert kept.heartbeat is not None
    (device,) = kept.heartbeat.devices or ()
    assert {one.pid for one in device.foreign or ()} == set(range(744, 1000))
    assert (kept.heartbeat.probes or ())[0].name == "p4000"


def test_live_shards_and_an_engine_s_newest_lines_are_kept() -> None:
    over = tuple(ShardStatus(replica=f"r{n}", state="failed") for n in range(5000))
    live = ShardStatus(replica="live", state="ready")
    kept, _ = bounded(AgentMessage(register=Register(node="n", shards=(*over, live))))
    assert kept.register is not None
    assert (kept.register.shards or ())[0] == live
    lines = tuple(f"line {n}" for n in range(1000))
    kept, _ = bounded(AgentMessage(shard=ShardStatus(replica="r", last_lines=lines)))
    assert kept.shard is not None
    assert (kept.shard.last_lines or ())[-1] == "line 999"


def test_usage_is_never_cut_for_it_would_be_acknowledged_and_lost() -> None:
    totals = tuple(UsageTotals(key=f"k{n}", model="m") for n in range(9000))
    usage = UsageReport(gateway="g", boot="b", worker=0, sequence=1, totals=totals)
    assert bounded(GatewayMessage(usage=usage))[1] == {}


def test_the_link_takes_more_of_a_list_than_any_bound_so_that_a_cut_is_told() -> None:
    of_gateways = {"UsageReport", "TrafficReport", "LoadReport"}
    sizes = [most for (kind, _), most in bounds._ITEMS.items() if kind not in of_gateways]
    assert max(*sizes, bounds.ITEMS) < LIST_MOST


def test_a_text_is_shortened_to_its_most() -> None:
    assert shortened("abc", 3) == "abc"
    assert shortened("abcd", 3) == "ab…"


def test_a_huge_message_is_cut_at_once() -> None:
    devices = tuple(DeviceSample(uuid=str(n), throttle_reasons=("a",) * 50) for n in range(4000))
    message = beat(devices=devices)
    bounded(message)
    began = time.thread_time()
    bounded(message)
    assert time.thread_time() - began < 0.05
