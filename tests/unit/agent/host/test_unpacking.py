"""Bodies of HTTP answers: no more is decompressed than was asked for."""

import gzip
import tracemalloc
import zlib

import pytest

from llmgw.base.errors import Unreadable
from llmgw_agent.host.unpacking import Unpacking


def unpacked(encoding: str, body: bytes, most: int = 1 << 20, step: int = 1000) -> bytes:
    one = Unpacking(encoding, most)
    for at in range(0, len(body), step):
        one.take(body[at : at + step])
    return one.whole()


@pytest.mark.parametrize("encoding", ["gzip", "GZIP ", "x-gzip", "deflate", "identity", ""])
def test_a_body_is_what_was_sent(encoding):
    body = bytes(range(256)) * 40
    sent = body
    if "gzip" in encoding.lower():
        sent = gzip.compress(body)
    elif encoding == "deflate":
        sent = zlib.compress(body)
    assert unpacked(encoding, sent) == body
    assert unpacked(encoding, b"") == b""


def test_a_bomb_is_cut_off_before_it_bursts():
    bomb = gzip.compress(bytes(64 << 20))
    assert len(bomb) < 70_000
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        with pytest.raises(Unreadable, match="answered more than 4 MiB: cut off"):
            unpacked("gzip", bomb, 4 << 20, step=len(bomb))
        most = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert most < 16 << 20


def test_just_as_much_as_may_be_is_taken():
    assert len(unpacked("gzip", gzip.compress(bytes(5000)), 5000)) == 5000
    with pytest.raises(Unreadable):
        unpacked("gzip", gzip.compress(bytes(5001)), 5000)
    assert len(unpacked("identity", bytes(5000), 5000)) == 5000
    with pytest.raises(Unreadable):
        unpacked("identity", bytes(5001), 5000)


def test_what_is_not_compressed_as_it_says_or_breaks_off_is_unreadable():
    with pytest.raises(Unreadable, match="its gzip can't be read"):
        unpacked("gzip", b"this is plain text")
    with pytest.raises(Unreadable, match="breaks off"):
        unpacked("gzip", gzip.compress(b"x" * 1000)[:-10])
    with pytest.raises(Unreadable, match="answered in 'br', which was not asked for"):
        unpacked("br", b"x")
