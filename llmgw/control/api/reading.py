"""Reading what is sent: bounded in size and time, strict in shape, numbers within their bounds."""

import asyncio
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request

from llmgw.base.errors import Unreadable
from llmgw.control.api.answer import TurnedAway
from llmgw.model.plainwords import said_of
from llmgw.model.written import Meaning, read_json

BODY_MOST = 1 << 20
"""Bytes of a body: a catalog entry has a few thousand."""
BODY_SECONDS = 20.0
QUERY_MOST = 8192

T = TypeVar("T")

_CLOSE = {"Connection": "close"}
"""What is left of a body that is not read would be taken for the next request."""


async def read_body(request: Request) -> bytes:
    """Return the whole body.

    Raises:
        TurnedAway: it is too large, compressed, not there in time, or the client went away.
    """
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise TurnedAway(415, "unreadable", "the body is compressed", headers=_CLOSE)
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > BODY_MOST:
        raise _too_large()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _pieces(request)
    except TimeoutError as error:
        raise TurnedAway(
            408, "timed_out", f"the body did not come within {BODY_SECONDS:g} s", headers=_CLOSE
        ) from error
    except ClientDisconnect as error:
        raise TurnedAway(400, "unreadable", "the client went away", headers=_CLOSE) from error


def read_as(body: bytes, type_: type[T], meaning: Meaning[T] | None = None) -> T:
    """Return the record of a body.

    Raises:
        Unreadable: it is not JSON, or not of that shape: all that is wrong, each with its path;
            what `meaning` finds beside it too.
    """
    try:
        return read_json(body, type_, "body", meaning=meaning)
    except RecursionError as error:
        raise Unreadable("body: nested too deep") from error


def read_query(query: bytes, type_: type[T]) -> T:
    """Return the parameters of a query string as a Struct.

    Raises:
        Unreadable: a parameter is unknown, there twice, of the wrong type or out of bounds.
    """
    if len(query) > QUERY_MOST:
        raise TurnedAway(414, "unreadable", f"the query has more than {QUERY_MOST} bytes")
    said: dict[str, str] = {}
    for name, value in _pairs(query):
        if name in said:
            raise Unreadable(f"query: {name[:40]!r} is there twice")
        said[name] = value
    try:
        return msgspec.convert(said, type_, strict=False)
    except msgspec.ValidationError as error:
        fields = ", ".join(getattr(type_, "__struct_fields__", ())) or "none"
        raise Unreadable(f"query: {said_of(error)}", hint=f"parameters are: {fields}") from error


def read_no_query(query: bytes) -> None:
    """Refuse parameters where none are taken: a mistyped one must not be ignored."""
    if query:
        raise Unreadable("query: this path takes no parameters")


def read_if_match(header: str | None) -> int | None:
    """Return the version that If-Match names; None when it is absent or `*`.

    Raises:
        Unreadable: it is not a version.
    """
    if header is None or header.strip() == "*":
        return None
    text = header.strip().removeprefix('"').removesuffix('"')
    if not (text.isascii() and text.isdigit()) or len(text) > 15:
        raise Unreadable(f"If-Match: {header[:40]!r} is not a version", hint="send a number")
    return int(text)


def version_needed() -> TurnedAway:
    """Return the refusal of a change that does not say what it replaces."""
    return TurnedAway(
        428,
        "version_needed",
        "If-Match is missing: what somebody else changed meanwhile would be undone unseen",
        hint="send the version that was read, 0 for what is new, or * to replace whatever is there",
    )


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=20)
    except (UnicodeDecodeError, ValueError) as error:
        raise Unreadable(f"query: {error}") from error


async def _pieces(request: Request) -> bytes:
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > BODY_MOST:
            raise _too_large()
    return bytes(found)


def _too_large() -> TurnedAway:
    return TurnedAway(413, "too_large", f"the body has more than {BODY_MOST} bytes", headers=_CLOSE)
