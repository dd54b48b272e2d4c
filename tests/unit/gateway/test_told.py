"""What a client that was told its place gets of an answer that is no stream."""

from types import SimpleNamespace
from typing import Any

from llmgw.gateway.proxy.replies import Framing
from llmgw.gateway.proxy.requests import Request
from llmgw.gateway.proxy.turn import ERROR_MOST, ToldClient

FIRST = ERROR_MOST + 500
"""Bytes of a first piece, which is kept whole for the head in it."""


def test_of_a_large_answer_no_more_is_kept_than_is_read_of_it():
    written: list[bytes] = []
    client: Any = SimpleNamespace(write=written.append, finish=lambda keep: None)
    task: Any = SimpleNamespace(request=Request(), request_id=b"r")
    told = ToldClient(client, task)
    framing = Framing(200, b"content-type: application/json\r\n", None, Request(), b"r")
    told.write(framing.begin() + framing.piece(b"x" * FIRST))
    kept = len(told._held)
    for _ in range(50):
        told.write(framing.piece(b"y" * 3000))
    assert len(told._held) == kept
    told.finish()
    assert b'"code":"engine_failed"' in written[-1]
