"""A stream ends once, for one reason, at the moment that its guards say; never before or after."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llmgw.base.errors import Refused, Unreachable, Unreadable
from llmgw.link import codec
from llmgw.link.identity import Identity
from llmgw.link.stream import INBOX, QUEUE_MESSAGES, Stream
from llmgw.model.link import AgentControl, AgentMessage, Ping, Pong
from llmgw.model.node import Heartbeat
from tests.unit.link.raw import FakeRaw
from tests.waiting import wait_until

SILENCE = 15.0


def pong(number: int) -> AgentMessage:
    return AgentMessage(pong=Pong(number=number))


def ping(number: int) -> AgentControl:
    return AgentControl(ping=Ping(number=number))


def identity(ends: float) -> Identity:
    return Identity(cluster="north", role="node", id="gpu-01", serial="1", ends=ends)


def new_stream(clock: Any, **more: Any) -> Stream[AgentMessage, AgentControl]:
    return Stream(AgentMessage, peer="10.0.0.9:1234", clock=clock, silence=SILENCE, **more)


@asynccontextmanager
async def carried(stream: Stream[Any, Any]):
    raw: Any = FakeRaw()
    task = asyncio.create_task(stream.carry(raw))
    await wait_until(lambda: stream._guard)
    yield raw
    raw.end()
    stream.abort("the test is over")
    await asyncio.wait({task}, timeout=5)
    task.result()


async def test_what_comes_in_is_handed_out_in_order_and_ends_with_the_peers_side(clock):
    stream = new_stream(clock)
    async with carried(stream) as raw:
        for number in range(3):
            raw.put(pong(number))
        raw.end()
        assert [message async for message in stream] == [pong(number) for number in range(3)]
        assert stream.received == 3
        assert not stream.ended, "this side may still write"


async def test_a_full_inbox_does_not_lose_the_end_of_the_peers_side(clock):
    stream = new_stream(clock)
    async with carried(stream) as raw:
        for number in range(INBOX):
            raw.put(pong(number))
        raw.end()
        await wait_until(stream._inbox.full)
        assert len([message async for message in stream]) == INBOX


async def test_a_silent_peer_is_dead_at_the_moment_of_its_deadline(clock):
    stream = new_stream(clock)
    async with carried(stream) as raw:
        await clock.advance(SILENCE - 0.01)
        assert not stream.ended
        await clock.advance(0.01)
        assert stream.ended
        assert raw.transport.aborted == 1
        with pytest.raises(Unreachable, match=r"10.0.0.9:1234: no message from it for 15 s"):
            await anext(stream)


async def test_every_message_moves_the_deadline(clock):
    stream = new_stream(clock)
    async with carried(stream) as raw:
        for number in range(5):
            await clock.advance(SILENCE - 1)
            raw.put(pong(number))
            await anext(stream)
        await clock.advance(SILENCE - 0.01)
        assert not stream.ended
        await clock.advance(0.02)
        assert stream.ended


async def test_three_missed_intervals_are_the_bound_once_an_interval_is_agreed(clock):
    stream = new_stream(clock)
    async with carried(stream):
        await clock.advance(SILENCE - 1)
        stream.expect_every(5.0)  # counts from now
        await clock.advance(14.9)
        assert not stream.ended
        stream.expect_every(1.0)
        await clock.advance(2.9)
        assert not stream.ended
        await clock.advance(0.1)
        assert stream.ended


async def test_an_interval_may_grow_again(clock):
    stream = new_stream(clock)
    async with carried(stream):
        stream.expect_every(1.0)
        await clock.advance(2.0)
        stream.expect_every(60.0)
        await clock.advance(179.0)
        assert not stream.ended


async def test_what_came_in_while_this_process_stood_still_is_heard_before_the_verdict(clock):
    stream = new_stream(clock)
    async with carried(stream) as raw:
        clock._elapsed += 100.0  # nobody ran: a stopped process, a sleeping machine
        await clock.advance(0.0)
        assert not stream.ended
        raw.put(pong(1))
        await anext(stream)
        await clock.advance(SILENCE - 1)
        assert not stream.ended


async def test_a_peer_that_says_nothing_after_we_stood_still_is_dead_soon(clock):
    stream = new_stream(clock)
    async with carried(stream):
        clock._elapsed += 100.0
        await clock.advance(0.0)
        await clock.advance(0.5)
        assert stream.ended


async def test_a_stream_ends_with_its_peers_certificate(clock):
    stream = new_stream(clock, identity=identity(clock.now() + 10.0))
    async with carried(stream):
        await clock.advance(9.9)
        assert not stream.ended
        await clock.advance(0.1)
        with pytest.raises(Unreachable, match="its certificate ended"):
            await anext(stream)


async def test_a_renewed_certificate_moves_the_end(clock):
    stream = new_stream(clock, identity=identity(clock.now() + 10.0))
    async with carried(stream) as raw:
        stream.renewed(identity(clock.now() + 30.0))
        for number in range(3):
            await clock.advance(9.0)
            raw.put(pong(number))
            await anext(stream)
        assert not stream.ended
        await clock.advance(3.0)
        assert stream.ended


async def test_a_full_queue_cuts_the_stream_with_that_reason(clock):
    stream = new_stream(clock)
    async with carried(stream) as raw:
        raw.may_write.clear()
        for number in range(QUEUE_MESSAGES + 2):
            stream.send(ping(number))
        assert stream.ended
        assert raw.transport.aborted == 1
        with pytest.raises(Unreachable, match="256 messages wait for it, the queue is full"):
            await anext(stream)


async def test_closing_sends_what_is_queued_and_nothing_later(clock):
    stream = new_stream(clock)
    async with carried(stream) as raw:
        raw.may_write.clear()
        stream.send(ping(1))
        stream.send(ping(2))
        stream.close_soon()
        stream.send(ping(3))
        raw.may_write.set()
        await stream.close()
        assert raw.sent == [codec.encode(ping(1)), codec.encode(ping(2))]
        assert raw.transport.aborted == 0
        assert [message async for message in stream] == []


async def test_the_first_reason_is_the_one_that_is_told(clock):
    stream = new_stream(clock)
    async with carried(stream):
        stream.abort("first")
        stream.abort("second")
        with pytest.raises(Unreachable, match="first"):
            await anext(stream)
        with pytest.raises(Unreachable, match="first"):
            await anext(stream)


async def test_records_that_came_before_a_break_are_handed_out_first(clock):
    stream = new_stream(clock)
    async with carried(stream) as raw:
        raw.put(pong(1))
        await wait_until(lambda: stream.received == 1)
        stream.abort("cut")
        assert await anext(stream) == pong(1)
        with pytest.raises(Unreachable, match="cut"):
            await anext(stream)


async def test_a_reader_that_waits_is_woken_by_the_end(clock):
    stream = new_stream(clock)
    async with carried(stream):
        waiting = asyncio.create_task(anext(stream))
        await asyncio.sleep(0)
        stream.abort("cut")
        await asyncio.wait({waiting}, timeout=5)
        assert isinstance(waiting.exception(), Unreachable)


async def test_malformed_bytes_are_this_sides_fault_to_tell(clock):
    stream = new_stream(clock)
    async with carried(stream) as raw:
        raw.put_bytes(b"\0\0\0\0\1\xff")
        await wait_until(lambda: stream.ended)
        assert isinstance(stream.fault, Unreadable)
        with pytest.raises(Unreadable, match="not a AgentMessage"):
            await anext(stream)


async def test_a_write_that_fails_ends_the_stream_in_words(clock):
    stream = new_stream(clock)
    async with carried(stream) as raw:
        raw.failure = KeyError("h2")
        stream.send(ping(1))
        await wait_until(lambda: stream.ended)
        with pytest.raises(Unreachable, match=r"10.0.0.9:1234: the stream broke"):
            await anext(stream)


async def test_a_cancelled_carrier_is_a_lost_connection(clock):
    stream = new_stream(clock)
    raw: Any = FakeRaw()
    task = asyncio.create_task(stream.carry(raw))
    await wait_until(lambda: stream._guard)
    task.cancel()  # what grpclib does to a handler whose connection is lost
    await asyncio.wait({task}, timeout=5)
    assert task.cancelled()
    with pytest.raises(Unreachable, match="the connection was lost"):
        await anext(stream)
    assert all(helper.done() for helper in stream._helpers)


async def test_what_is_to_be_answered_here_is_answered_and_handed_on(clock):
    def answer(message: AgentMessage) -> AgentControl | None:
        return ping(message.pong.number + 1) if message.pong else None

    stream = new_stream(clock, answer=answer)
    async with carried(stream) as raw:
        raw.put(AgentMessage(heartbeat=Heartbeat(sequence=1)))
        raw.put(pong(41))
        assert (await anext(stream)).heartbeat == Heartbeat(sequence=1)
        assert await anext(stream) == pong(41)
        await wait_until(lambda: raw.sent)
        assert raw.sent == [codec.encode(ping(42))]


async def test_a_value_that_does_not_fit_reaches_the_sender_and_not_the_peer(clock):
    stream = new_stream(clock)
    async with carried(stream) as raw:
        with pytest.raises(Unreadable, match="whole number"):
            stream.send(ping("one"))  # type: ignore[arg-type]
        stream.send(ping(1))
        await wait_until(lambda: raw.sent)
        assert not stream.ended


async def test_a_stream_that_never_was_carried_can_be_ended(clock):
    stream = new_stream(clock)
    stream.abort("no connection")
    with pytest.raises(Unreachable, match="no connection"):
        await anext(stream)
    closed = new_stream(clock)
    await closed.close()
    assert [message async for message in closed] == []


async def test_a_fault_is_told_after_what_was_queued(clock):
    stream = new_stream(clock)
    async with carried(stream) as raw:
        stream.send(ping(1))
        stream.fail(Refused("another machine has this id"))
        await wait_until(lambda: stream.ended)
        assert raw.sent == [codec.encode(ping(1))]
        assert isinstance(stream.fault, Refused)
