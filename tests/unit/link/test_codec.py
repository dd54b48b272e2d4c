"""Bytes become records or one error, whatever they are; a stream's are never betterproto2's."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw.link import codec
from llmgw.model.device import Device, DeviceSample
from llmgw.model.fabric import NvlinkDomain, Port, PortCounter
from llmgw.model.feed import Batch, Position
from llmgw.model.link import (
    AgentControl,
    AgentMessage,
    GatewayControl,
    GatewayMessage,
    JoinRequest,
    Ping,
    Pong,
)
from llmgw.model.node import Heartbeat, Inventory, Register
from llmgw.model.shard import ShardStatus
from llmgw_proto import convert
from llmgw_proto.wire.llmgw import v1

TYPES = (AgentMessage, AgentControl, GatewayMessage, GatewayControl, JoinRequest)
BEAT = AgentMessage(heartbeat=Heartbeat(sequence=7, devices=(DeviceSample(uuid="GPU-1"),)))
BATCH = GatewayControl(batch=Batch(position=Position(epoch="e", number=4), topics=("keys",)))
REGISTER = AgentMessage(register=Register(node="gpu-01", labels={"rack": "a"}))


@pytest.mark.parametrize("record", [BEAT, REGISTER, AgentControl(ping=Ping(number=0))])
def test_a_record_comes_back_as_it_was(record):
    assert codec.decode(codec.encode(record), type(record)) == record


@given(st.sampled_from(TYPES), st.binary(max_size=200))
@example(AgentMessage, b"\xff")
def test_no_bytes_make_reading_raise_anything_but_unreadable(record, data):
    try:
        read = codec.decode(data, record)
    except Unreadable:
        return
    assert isinstance(read, record)


@pytest.mark.parametrize("record", [BEAT, REGISTER])
def test_every_cut_message_is_refused_or_says_less(record):
    data = codec.encode(record)
    for size in range(1, len(data)):
        with pytest.raises(Unreadable, match="AgentMessage"):
            codec.decode(data[:size], AgentMessage)


def test_what_goes_over_a_stream_is_neither_written_nor_read_by_betterproto2(monkeypatch):
    def never(*_, **__):
        raise AssertionError("a message of a stream became a betterproto2 object")

    said = (BEAT, REGISTER, BATCH, AgentControl(ping=Ping(number=1)))
    written = [bytes(convert.to_wire(one)) for one in said]
    for message in (v1.AgentMessage, v1.AgentControl, v1.GatewayMessage, v1.GatewayControl):
        monkeypatch.setattr(message, "__init__", never)
        monkeypatch.setattr(message, "parse", never)
    for one, data in zip(said, written, strict=True):
        assert codec.decode(codec.encode(one), type(one)) == one
        assert codec.decode(data, type(one)) == one
        with pytest.raises(AssertionError):
            convert.to_wire(one)


def test_a_choice_made_twice_is_the_last_one_as_the_format_says():
    twice = codec.encode(REGISTER) + codec.encode(AgentMessage(pong=Pong(number=1)))
    assert codec.decode(twice, AgentMessage) == AgentMessage(pong=Pong(number=1))


def test_fields_of_a_newer_peer_are_passed_over():
    newer = codec.encode(AgentMessage(shard=ShardStatus(replica="r"))) + b"\xa2\x06\x01x"
    assert codec.decode(newer, AgentMessage).shard == ShardStatus(replica="r")


def test_a_field_of_another_wire_type_is_as_if_it_were_not_there():
    # `node`, a text, as a number: betterproto2 alone would make it the record's text.
    assert codec.decode(b"\x0a\x02\x08\x05", AgentMessage).register == Register(node="")


def test_services_name_the_routes_of_the_sources():
    for service in codec.SERVICES.values():
        assert service.route.startswith("/llmgw.v1.")
        assert service.up.__name__ in dir(v1)
        assert service.down.__name__ in dir(v1)


def test_an_agent_s_huge_message_is_read_in_the_time_of_a_small_one():
    many = Inventory(devices=tuple(Device(uuid=f"G{n}") for n in range(50_000)))
    data = convert.to_fast(AgentMessage(inventory=many)).SerializeToString()
    codec.decode(data, AgentMessage)
    began = time.thread_time()
    read = codec.decode(data, AgentMessage).inventory
    assert time.thread_time() - began < 0.2  # all of it takes betterproto2 a second
    assert read.devices == (many.devices or ())[: codec.LIST_MOST]


def test_a_message_that_holds_too_much_in_all_is_refused():
    counters = tuple(PortCounter(name=f"c{n}", value=n) for n in range(codec.LIST_MOST))
    ports = tuple(Port(adapter=f"a{n}", number=1, counters=counters) for n in range(8))
    data = codec.encode(AgentMessage(heartbeat=Heartbeat(sequence=1, ports=ports)))
    with pytest.raises(Unreadable, match="too many items"):
        codec.decode(data, AgentMessage)


def test_a_list_in_a_small_message_is_read_whole():
    held = tuple(f"channel{n}" for n in range(1000))
    message = AgentMessage(inventory=Inventory(nvlink_domain=NvlinkDomain(imex_channels=held)))
    assert codec.decode(codec.encode(message), AgentMessage) == message
