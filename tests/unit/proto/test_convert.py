"""Records survive the wire: absent stays absent, zero stays zero, what is unknown is not lost."""

from typing import Any

import betterproto2
import msgspec
import pytest
from google.protobuf import message_factory
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw.model.commands import Command, ReadLogs, Reply, StartShard
from llmgw.model.device import Device, DeviceSample
from llmgw.model.keys import UsageTotals
from llmgw.model.link import AgentControl, AgentMessage, JoinAnswer, Ping, Pong
from llmgw.model.node import Heartbeat, Inventory, Register
from llmgw.model.record import Record
from llmgw.model.settings import NodeSettings
from llmgw.model.shard import ShardStatus
from llmgw_proto import convert, fast
from llmgw_proto.wire.llmgw import v1
from tests.unit.proto.messages import any_record, record_names, records
from tests.unit.proto.synthetic import FULL, Synthetic, WireSynthetic, synthetic_descriptor

EVERY = st.sampled_from(record_names()).flatmap(lambda name: any_record(records()[name]))


def over_betterproto(record: Any) -> Any:
    data = bytes(convert.to_wire(record))
    return convert.to_record(convert.message_of(type(record)).parse(data), type(record))


def over_upb(record: Any) -> Any:
    data = convert.to_fast(record).SerializeToString()
    message = fast.message_class(type(record).__name__).FromString(data)
    return convert.to_record(message, type(record))


BOTH = pytest.mark.parametrize("over", [over_betterproto, over_upb])


@given(EVERY)
def test_any_record_comes_back_equal_over_betterproto(record):
    assert over_betterproto(record) == record


@given(EVERY)
def test_any_record_comes_back_equal_over_the_c_runtime(record):
    assert over_upb(record) == record


@given(any_record(AgentMessage))
def test_one_encoder_is_read_by_the_other_decoder(record):
    message = AgentMessage(heartbeat=record.heartbeat)
    slow, quick = bytes(convert.to_wire(message)), convert.to_fast(message).SerializeToString()
    assert convert.to_record(v1.AgentMessage.parse(quick), AgentMessage) == message
    kind = fast.message_class("AgentMessage")
    assert convert.to_record(kind.FromString(slow), AgentMessage) == message


@BOTH
def test_absent_readings_are_none_and_zero_is_zero(over):
    sample = over(DeviceSample(uuid="GPU-1", busy_percent=0.0, ecc_corrected=0))
    assert (sample.busy_percent, sample.ecc_corrected) == (0.0, 0)
    assert (sample.power_watts, sample.foreign, sample.age) == (None, None, None)


@BOTH
def test_an_empty_list_is_not_a_list_that_was_not_said(over):
    assert over(Heartbeat(sequence=1, weights=())).weights == ()
    assert over(Heartbeat(sequence=1)).weights is None
    assert over(Register(node="a", labels={})).labels == {}
    assert over(Register(node="a")).labels is None
    assert over(NodeSettings(version=1, engines={})).engines == {}


@BOTH
def test_an_empty_message_is_not_an_absent_one(over):
    assert over(Register(node="a", inventory=Inventory())).inventory == Inventory()
    assert over(Register(node="a")).inventory is None


@BOTH
def test_a_zero_that_was_sent_does_not_become_the_default(over):
    assert over(ReadLogs(lines=0)).lines == 0
    assert over(UsageTotals(key="k", model="m", requests=0)).requests == 0


@BOTH
def test_words_that_are_not_known_go_back_as_they_came(over):
    assert over(ShardStatus(replica="r", state="unknown(77)")).state == "unknown(77)"
    assert over(Device(uuid="u", kind="mig")).kind == "mig"
    assert over(Device(uuid="u")).kind is None


def test_a_number_from_a_newer_peer_shows_as_unknown():
    message = v1.ShardStatus(replica="r", state=v1.ShardState(9))
    assert convert.to_record(message, ShardStatus).state == "unknown(9)"


@BOTH
def test_a_word_that_the_enum_lacks_is_refused_with_what_it_has(over):
    with pytest.raises(Unreadable, match=r"'paused' is not one of fetching, starting"):
        over(ShardStatus(replica="r", state="paused"))


def test_a_choice_that_is_not_known_reads_as_none():
    quick = fast.message_class("Command")
    later = quick(term=1, id="c", deadline=1.0).SerializeToString() + b"\xa2\x01\x00"  # field 20
    assert convert.to_record(v1.Command.parse(later), Command).request is None
    assert convert.to_record(quick.FromString(later), Command).request is None


def test_a_message_that_lacks_what_its_record_needs_is_refused_by_name():
    with pytest.raises(Unreadable, match="StartShard came without what it needs: spec"):
        convert.to_record(v1.StartShard(), StartShard)
    with pytest.raises(Unreadable, match="JoinAnswer came without what it needs: role"):
        convert.to_record(v1.JoinAnswer(cluster="c"), JoinAnswer)


@pytest.mark.parametrize(
    "wrong",
    [
        Ping(number=1 << 63),
        Ping(number="1"),  # type: ignore[arg-type]
        Ping(number=None),  # type: ignore[arg-type]
        Register(node="lone \udc80 surrogate"),
        Register(node="a", labels={"a": 1}),  # type: ignore[dict-item]
        Reply(id="a", answer=Ping(number=1)),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_does_not_fit_is_refused_in_words(wrong):
    with pytest.raises(Unreadable, match=r"Ping|Register\.|Reply"):
        convert.to_wire(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        Heartbeat(sequence=1 << 63),
        Heartbeat(sequence="1"),  # type: ignore[arg-type]
        Heartbeat(sequence=None),  # type: ignore[arg-type]
        Heartbeat(sequence=1, weights_print="\udc80"),
    ],
)
def test_a_heartbeat_that_does_not_fit_is_refused(wrong):
    with pytest.raises(Unreadable, match="Heartbeat"):
        convert.to_fast(wrong)


def test_members_of_a_body_are_fields_of_their_own():
    message = convert.to_wire(AgentControl(ping=Ping(number=3)))
    assert betterproto2.which_one_of(message, "body") == ("ping", v1.Ping(number=3))


@pytest.mark.parametrize("encode", [convert.to_wire, convert.to_fast])
def test_a_body_that_says_two_things_is_refused(encode):
    with pytest.raises(Unreadable, match="AgentMessage says heartbeat and pong at once"):
        encode(AgentMessage(heartbeat=Heartbeat(sequence=1), pong=Pong(number=1)))


@pytest.mark.parametrize("record", [FULL, Synthetic(text="x")])
def test_a_new_field_needs_no_third_edit_over_betterproto(record):
    data = bytes(convert.writer(Synthetic, WireSynthetic)(record))
    assert convert.reader(Synthetic, WireSynthetic)(WireSynthetic.parse(data)) == record


@pytest.mark.parametrize("record", [FULL, Synthetic(text="x")])
def test_a_new_field_needs_no_third_edit_over_the_c_runtime(record):
    descriptor = synthetic_descriptor()
    message = message_factory.GetMessageClass(descriptor)
    data = message(**fast.writer(Synthetic, descriptor)(record)).SerializeToString()
    assert fast.reader(Synthetic, descriptor)(message.FromString(data)) == record


def test_a_field_without_its_message_field_is_found_when_compiling():
    class Ping(Record, frozen=True, kw_only=True):
        number: int
        later: int | None = None

    with pytest.raises(TypeError, match="message Ping has no later"):
        convert.writer(Ping, v1.Ping)
    with pytest.raises(TypeError, match="message Ping has no later"):
        fast.reader(Ping, fast.message_class("Ping").DESCRIPTOR)


def test_an_annotation_without_a_form_on_the_wire_is_found_when_compiling():
    class Odd(msgspec.Struct):
        value: set[str]

    with pytest.raises(TypeError, match=r"Odd.value: .* has no form on the wire"):
        convert.writer(Odd, v1.Ping)
