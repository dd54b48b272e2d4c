"""What a worker hears while its channel opens is answered like all else."""

import asyncio
import random
import socket

import uvloop

from llmgw.base.clock import SystemClock
from llmgw.gateway.cells import Cells
from llmgw.gateway.frames import FrameReader, Took, decode_from_worker, framed
from llmgw.gateway.front import Front
from llmgw.gateway.table import whole
from llmgw.gateway.worker import Report, Worker, listen_to_parent
from tests.fakes.gateway import table


def test_a_table_that_waits_before_the_channel_opens_is_said_to_be_taken():
    parent, end = socket.socketpair()
    with parent, socket.create_server(("127.0.0.1", 0)) as listener:
        parent.settimeout(10.0)
        frame = whole(table())
        parent.sendall(framed(frame))
        # The services' own loop: it reads before who opened the channel is told that it is open.
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_open(end, listener))
        read = FrameReader().feed(parent.recv(1 << 16))
    assert [decode_from_worker(one) for one in read] == [Took(number=frame.number)]


async def _open(end: socket.socket, listener: socket.socket) -> None:
    report, clock = Report(), SystemClock()
    cells = Cells.private()
    front = Front(clock, random.Random(1), cells, "test", report.engine_down, report.held)
    worker = Worker(front, listener, report, clock, report.heard)
    channel = await listen_to_parent(worker, report, end)
    async with asyncio.timeout(5):
        await worker._table.wait()
    channel._on_lost = lambda: None  # the parent of this worker is the test
    channel.close()
    await asyncio.sleep(0)
