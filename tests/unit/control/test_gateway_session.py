"""What the answers to pings say of how far a gateway is."""

from llmgw.control.gateway_session import SETTLES, GatewaySession
from llmgw.model.gateway import GatewayRegister
from llmgw.model.link import GatewayControl, GatewayMessage
from tests.fakes.peer import MemoryStream, identity


def session() -> GatewaySession:
    who = identity("gateway", "g1")
    stream: MemoryStream[GatewayMessage, GatewayControl] = MemoryStream(who, "g1:1")
    register = GatewayRegister(gateway="g1")
    return GatewaySession(stream=stream, identity=who, heard=0.0, register=register)


def test_one_answer_says_nothing_of_what_the_gateway_did_since():
    one = session()
    one.ping(10.0)
    assert not one.answered(1, 10.1)
    assert one.settled is None


def test_the_answer_to_a_ping_sent_later_says_that_an_earlier_one_has_settled():
    one = session()
    one.ping(10.0)
    one.answered(1, 10.1)
    one.ping(10.1 + SETTLES)
    assert one.answered(2, 11.0)
    assert one.settled == 10.0


def test_pings_that_were_answered_together_late_say_nothing():
    """The link stood still: nothing that was sent meanwhile had come there before."""
    one = session()
    for at in (10.0, 12.0, 14.0):
        one.ping(at)
    assert not any(one.answered(number, 14.1) for number in (1, 2, 3))
    assert one.settled is None
    one.ping(15.0)
    assert one.answered(4, 15.1)
    assert one.settled == 14.0


def test_an_answer_to_no_ping_is_nothing():
    one = session()
    one.ping(10.0)
    assert not one.answered(7, 10.1)
    assert not one.answered(1, 10.2)
    one.ping(12.0)
    assert not one.answered(1, 12.1)
    assert not one.answered(2, 12.2)
    assert one.settled is None
