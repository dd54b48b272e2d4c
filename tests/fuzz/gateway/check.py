"""What may not happen, whatever a client sends."""

import asyncio
import re
from dataclasses import dataclass, field

import h11

from llmgw.gateway.proxy.replies import CONTINUE
from llmgw.gateway.proxy.requests import Request
from llmgw.model.catalog import LLAMACPP
from llmgw.model.gateway import Route
from tests.fakes.gateway import endpoint, table
from tests.fuzz.gateway.memory import MemoryGateway, Wire

FRAMING = {"bad_http", "headers_too_large", "body_too_large", "http_version", "request_timeout"}
"""Refusals behind which nothing more is read."""
_SPACES = re.compile(rb"\A([A-Z]+) +")
EDITING = endpoint(2, "m-1", engine=LLAMACPP, served_name="other")
"""An engine for which bodies are edited."""
STATE = table(
    Route(model="m", endpoints=(endpoint(1, "m-0"), EDITING), wanted=2), request_body_bytes=1 << 16
)


@dataclass
class Reading:
    """How h11 reads what a client sends."""

    requests: list[tuple[str, bytes, bytes]] = field(default_factory=list)
    """Whole ones: method, target, body."""
    begun: tuple[str, bytes] | None = None
    """One whose head alone was whole or whose body is not acceptable."""
    error: str | None = None


def read(data: bytes) -> Reading:
    """Return h11's reading; a request that ends its connection ends the reading.

    Empty lines between requests are nothing, and spaces behind a method are one (RFC 9112, 2.2 and
    3, lets a server take both): h11, which takes neither, is not asked about them.
    """
    reading = Reading()
    more: bytes | None = data
    while more:
        more = _read_one(_SPACES.sub(rb"\1 ", more.lstrip(b"\r\n")), reading)
    return reading


def _read_one(data: bytes, reading: Reading) -> bytes | None:
    """Read one request; return what is behind it, None when nothing is read any more."""
    server = h11.Connection(h11.SERVER)
    server.receive_data(data)
    body = b""
    try:
        while not isinstance(event := server.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Request):
                reading.begun = event.method.decode(), event.target
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            else:
                return None
        server.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
        server.send(h11.EndOfMessage())
    except h11.RemoteProtocolError as error:
        reading.error = str(error)
        return None
    assert reading.begun is not None
    reading.requests.append((*reading.begun, body))
    reading.begun = None
    return server.trailing_data[0] if server.our_state is h11.DONE else None


async def complaint(parts: list[bytes]) -> str | None:
    """Return what is wrong with the gateway's way of taking these bytes; None when nothing is."""
    gateway = MemoryGateway(STATE)
    written: list[bytes] = []
    raised: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: raised.append(context.get("exception")))
    try:
        wire = Wire(gateway.connection(), written.append)
        for part in parts:
            wire.deliver(part)
            await asyncio.sleep(0)
        for _ in range(8 * (len(gateway.taken) + 1)):
            await asyncio.sleep(0)
        wire.close()
        await asyncio.sleep(0)
    except Exception as error:  # noqa: BLE001 (what is looked for)
        return f"{type(error).__name__}: {error}"
    finally:
        loop.set_exception_handler(None)
    if raised:
        return f"{type(raised[0]).__name__}: {raised[0]}"
    words = _smuggled(gateway.taken, read(b"".join(parts))) or _unreadable(
        b"".join(written), gateway.taken
    )
    if words is None and (gateway.connections or any(gateway.cells.load(at) for at in (0, 1))):
        words = "something is left open"
    return words


def _smuggled(taken: list[Request], reading: Reading) -> str | None:
    """Say what the gateway took for a request that h11 did not."""
    for number, request in enumerate(taken):
        code = request.refusal and request.refusal.code
        if code in FRAMING:
            return None
        seen = reading.requests[number] if number < len(reading.requests) else None
        head = reading.begun if seen is None else seen[:2]
        if head != (request.method, request.target):
            return (
                f"request {number} is {request.method} {request.target!r}, "
                f"to h11 {head}, {reading.error}"
            )
        if code is None and (seen is None or seen[2] != request.body):
            return f"the body of request {number} is {request.body!r}, to h11 {seen}"
    return None


def _unreadable(written: bytes, taken: list[Request]) -> str | None:
    """Say what is wrong with the replies."""
    client = h11.Connection(h11.CLIENT)
    rest = written
    for request in taken:
        head = request.method if request.method in {"HEAD", "CONNECT"} else "GET"
        client = h11.Connection(h11.CLIENT)
        client.send(
            h11.Request(method=head.replace("CONNECT", "GET"), target="/", headers=[("host", "x")])
        )
        client.send(h11.EndOfMessage())
        client.receive_data(rest)
        try:
            status = _status(client)
        except h11.RemoteProtocolError as error:
            return f"a reply is no HTTP: {error}"
        if status is None or (status >= 500 and status != 505):
            return f"the reply to {request.method} {request.target!r} is {status}"
        rest = client.trailing_data[0]
    rest = rest.removeprefix(CONTINUE)  # to one that is not whole
    return f"said unasked: {rest!r}" if rest else None


def _status(client: h11.Connection) -> int | None:
    """Return the status of one whole reply; None when it is not whole."""
    status = None
    while True:
        event = client.next_event()
        if isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.EndOfMessage):
            return status
        elif event in (h11.NEED_DATA, h11.PAUSED) or isinstance(event, h11.ConnectionClosed):
            return None
