"""The helper process that measures how fast memory is read, with one worker a processor.

Run as `python -m llmgw_agent.probe.bandwidth_side`. A worker searches its share for a byte that is
not there: that is memchr of the C library, which reads as fast as a sum in C does.
"""

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter

import msgspec

from llmgw.base.errors import Unreadable
from llmgw_agent.host.helper_side import serve
from llmgw_agent.probe.bandwidth_request import MeasureBandwidth, MeasuredBandwidth

_ORDER = struct.Struct("dQ")
"""When to begin (`perf_counter`, which is one clock for all processes) and how many bytes."""

_ANSWER = struct.Struct("dd")
"""When it began and when it was done."""

_HEAD_START = 0.002
"""Seconds from the order to the beginning: the last worker has it by then."""


def measure(request: MeasureBandwidth) -> MeasuredBandwidth:
    """Return the best of the passes, of all workers together and of the first one alone.

    Raises:
        Unreadable: a worker ended, for want of memory as a rule.
    """
    share, core_bytes = request.share_bytes, request.core_bytes
    sizes = [max(share, core_bytes), *(share for _ in request.cpus[1:])]
    with _workers(request.cpus, sizes) as workers:
        rate = _best(workers, share, request.passes)
        core = _best(workers[:1], core_bytes, request.passes) if core_bytes else None
    # Where other work kept the workers apart, all of them seem slower than one that was left alone.
    return MeasuredBandwidth(rate=max(rate, core or 0.0), core_rate=core)


def _best(workers: Sequence[socket.socket], size: int, passes: int) -> float:
    """Return bytes per second of the best pass: from the first beginning to the last end."""
    return size * len(workers) / min(_pass(workers, size) for _ in range(passes))


def _pass(workers: Sequence[socket.socket], size: int) -> float:
    start = perf_counter() + _HEAD_START
    for worker in workers:
        worker.sendall(_ORDER.pack(start, size))
    times = [_answer(worker) for worker in workers]
    return max(done for _, done in times) - min(began for began, _ in times)


def _answer(worker: socket.socket) -> tuple[float, float]:
    data = worker.recv(_ANSWER.size, socket.MSG_WAITALL)
    if len(data) < _ANSWER.size:
        raise Unreadable("a worker ended while memory bandwidth was measured")
    began, done = _ANSWER.unpack(data)
    return began, done


@contextmanager
def _workers(cpus: Sequence[int], sizes: Sequence[int]) -> Iterator[list[socket.socket]]:
    """Start a worker on each processor; they have filled their shares when this begins."""
    ends: list[socket.socket] = []
    pids: list[int] = []
    try:
        for cpu, size in zip(cpus, sizes, strict=True):
            ours, theirs = socket.socketpair()
            pid = os.fork()
            if pid == 0:
                _be_worker(cpu, size, theirs, [*ends, ours])
            theirs.close()
            ends.append(ours)
            pids.append(pid)
        for end in ends:
            _answer(end)
        yield ends
    finally:
        for end in ends:
            end.close()
        for pid in pids:
            os.waitpid(pid, 0)


def _be_worker(cpu: int, size: int, end: socket.socket, others: Sequence[socket.socket]) -> None:
    """Read when told, until the other end is closed; never return."""
    try:
        for other in others:
            # A copy of another worker's socket would keep that one alive after this process's end.
            other.close()
        with suppress(OSError):
            os.sched_setaffinity(0, {cpu})
        # Written by this processor, so that the pages are near it; untouched ones would all be one.
        share = b"\x01" * size
        end.sendall(_ANSWER.pack(0.0, 0.0))
        while len(order := end.recv(_ORDER.size, socket.MSG_WAITALL)) == _ORDER.size:
            start, wanted = _ORDER.unpack(order)
            end.sendall(_ANSWER.pack(*_read(share, wanted, start)))
    finally:
        os._exit(0)


def _read(share: bytes, size: int, start: float) -> tuple[float, float]:
    """Read so many bytes of the share from that time on; return when it began and was done.

    It begins late where something else has the processor: that is no time of reading.
    """
    while (began := perf_counter()) < start:
        pass
    share.find(0, 0, size)
    return began, perf_counter()


def main() -> None:
    """Answer until standard input ends."""
    serve(lambda line: measure(msgspec.json.decode(line, type=MeasureBandwidth)))


if __name__ == "__main__":
    main()
