"""The admin API as an ASGI application, made from the table of operations."""

import asyncio
from collections.abc import Sequence

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from llmgw.base import log
from llmgw.base.errors import LlmgwError
from llmgw.control.api.access import Gate
from llmgw.control.api.answer import TurnedAway, internal_error, json_response, refusal
from llmgw.control.api.openapi import document_json
from llmgw.control.api.operation import Call, Caller, Operation, Pieces, Raw, Sent
from llmgw.control.api.pieces import PiecesSent
from llmgw.control.api.reading import (
    read_as,
    read_body,
    read_if_match,
    read_no_query,
    read_query,
    version_needed,
)
from llmgw.control.api.shapes import Leading
from llmgw.control.api.stream import EventStream
from llmgw.control.api.table import OPERATIONS
from llmgw.control.metrics.collector import Scrapes
from llmgw.control.plane import Plane

logger = log.get(__name__)

NOBODY = Caller(name="nobody", role="")


def build(plane: Plane, operations: Sequence[Operation] = OPERATIONS) -> Starlette:
    """Return the application. `llmgw.control.api.serve` puts it behind a socket.

    Its state has `ending`, an event that ends all streams, and `loopback`, whether it is served on
    loopback alone: False unless whoever serves it knows better.
    """
    paths: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = operation
    app = Starlette(exception_handlers={HTTPException: _not_found})
    app.router.redirect_slashes = False
    app.state.ending = asyncio.Event()
    app.state.loopback = False
    desk = _Desk(plane, Gate(plane.tokens, plane.clock), app)
    app.router.routes.extend(
        Route(path, _Path(desk, methods), name=path) for path, methods in paths.items()
    )
    return app


class _Desk:
    """Answers requests: who asks, may they, what do they say, and what comes of it."""

    def __init__(self, plane: Plane, gate: Gate, app: Starlette) -> None:
        self._plane = plane
        self._gate = gate
        self._state = app.state
        self._scrapes = Scrapes(plane)

    async def answer(self, operation: Operation, request: Request) -> Response:
        """Return the response to one request, whatever happens."""
        try:
            return await self._answer(operation, request)
        except LlmgwError as error:
            return refusal(error)
        except Exception as error:  # the top of a request: nothing of it gets out
            logger.error("a request failed", operation=operation.name, exc_info=error)
            return refusal(internal_error())

    async def _answer(self, operation: Operation, request: Request) -> Response:
        caller = self._admit(operation, request)
        if operation.changes and not self._plane.leader:
            where = self._plane.elsewhere()
            raise TurnedAway(503, "not_leader", where.message, hint=where.hint)
        said: dict[str, object] = {}
        query = request.scope.get("query_string", b"")
        if operation.query is None:
            read_no_query(query)
        else:
            said["query"] = read_query(query, operation.query)
        if operation.body is not None:
            said["body"] = read_as(await read_body(request), operation.body, operation.meaning)
        seen = request.headers.get("if-match")
        if operation.versioned and seen is None:
            raise version_needed()
        call = Call(
            plane=self._plane,
            caller=caller,
            path=request.path_params,
            describe=document_json,
            scrapes=self._scrapes,
            if_match=read_if_match(seen),
        )
        return self._response(operation, request, await operation.handler(call, **said))

    def _admit(self, operation: Operation, request: Request) -> Caller:
        if operation.role is None or (operation.open_on_loopback and self._state.loopback):
            return NOBODY
        peer = request.client.host if request.client else None
        return self._gate.admit(request.headers.get("authorization"), peer, operation.role)

    def _response(self, operation: Operation, request: Request, answer: object) -> Response:
        match answer:
            case Sent():
                return EventStream(
                    answer,
                    clock=self._plane.clock,
                    ending=self._state.ending,
                    still=self._gate.still(request.headers.get("authorization")),
                )
            case Pieces():
                return PiecesSent(answer, request.headers.get("accept-encoding", ""))
            case Raw(body=body):
                return json_response(body)
            case Leading(leader=False):
                return json_response(msgspec.json.encode(answer), 503)
            case _:
                empty = operation.answer is None
                body = b"" if empty else msgspec.json.encode(answer)
                return json_response(body, operation.status)


class _Path:
    """One path with its methods, as an ASGI application."""

    def __init__(self, desk: _Desk, operations: dict[str, Operation]) -> None:
        self._desk = desk
        self._operations = operations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        operation = self._operation(request.method)
        response = (
            refusal(self._no_such_method(request.method))
            if operation is None
            else await self._desk.answer(operation, request)
        )
        await response(scope, receive, send)

    def _operation(self, method: str) -> Operation | None:
        if method == "HEAD":
            get = self._operations.get("GET")
            # A stream has no length and no end to ask for.
            return None if get is None or get.streams else get
        return self._operations.get(method)

    def _no_such_method(self, method: str) -> TurnedAway:
        known = set(self._operations)
        if self._operation("HEAD") is not None:
            known.add("HEAD")
        allowed = ", ".join(sorted(known))
        return TurnedAway(
            405,
            "no_such_method",
            f"{method[:20]!r} is not answered here",
            hint=f"this path answers {allowed}",
            headers={"Allow": allowed},
        )


def _not_found(request: Request, error: Exception) -> Response:
    return refusal(
        TurnedAway(
            404, "not_found", "there is no such path", hint="GET /api/v1/openapi.json lists all"
        )
    )
