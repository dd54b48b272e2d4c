"""A long answer sent piece by piece: the loop is never held for all of it."""

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from llmgw.control.api.answer import HEADERS
from llmgw.control.api.operation import Pieces
from llmgw.control.metrics.packing import Text

SEND_SECONDS = 30.0
"""A client that does not take the whole answer in this time is let go: it holds megabytes."""


class PiecesSent(Response):
    """Sends an answer in its pieces, compressed for a client that accepts that.

    Args:
        answer: what is sent.
        accepts: the request's Accept-Encoding.
    """

    def __init__(self, answer: Pieces, accepts: str) -> None:
        super().__init__(headers={**HEADERS, "Content-Type": answer.media_type})
        self._text: Text | None = answer.body
        self._ended = answer.ended
        self._compressing = _takes_gzip(accepts)
        self.headers["vary"] = "Accept-Encoding"
        if self._compressing:
            del self.headers["content-length"]
            self.headers["content-encoding"] = "gzip"
        else:
            self.headers["content-length"] = str(sum(map(len, answer.body.pieces)))

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer one request."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await send(start)
                await self._send_body(send)
        except TimeoutError:
            # The answer stays unfinished: the server ends the connection for it.
            return
        finally:
            self._text = None
            self._ended()

    async def _send_body(self, send: Send) -> None:
        text = self._text or Text(())
        for piece in await text.packed() if self._compressing else text.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _takes_gzip(accepts: str) -> bool:
    """Say whether a client accepts gzip, and not with a weight of nothing."""
    for one in accepts.split(","):
        coding, _, weight = one.replace(" ", "").partition(";")
        if coding.lower() in {"gzip", "*"}:
            return weight not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False
