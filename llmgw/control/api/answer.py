"""Answers and refusals in one shape. No secret and no traceback is in any of them."""

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from llmgw.base.errors import (
    Conflict,
    LlmgwError,
    NotFound,
    PartlyDone,
    Refused,
    TimedOut,
    Unreachable,
    Unreadable,
    Usage,
)
from llmgw.base.secrets import redact
from llmgw.model.faulty import Faulty
from llmgw.model.record import Problem, Record

HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""On every answer: it is for the asker alone, and for no browser to guess about."""

_STATUS: tuple[tuple[type[LlmgwError], int, str], ...] = (
    (NotFound, 404, "not_found"),
    (Refused, 403, "refused"),
    (Conflict, 409, "conflict"),
    (Usage, 400, "usage"),
    (Unreadable, 400, "unreadable"),
    (Unreachable, 503, "unreachable"),
    (TimedOut, 504, "timed_out"),
    (PartlyDone, 500, "partly_done"),
)


class Fault(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What is wrong."""

    code: str
    message: str
    hint: str | None
    problems: tuple[Problem, ...] = ()


class ErrorAnswer(Record, frozen=True, kw_only=True):
    """The body of every refusal."""

    error: Fault


class TurnedAway(LlmgwError):
    """A refusal that HTTP has a status of its own for.

    Args:
        status: the status.
        code: its name in the body.
        message: one line.
        hint: what to do.
        headers: to be sent beside it.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})


def error_answer(error: LlmgwError) -> tuple[int, ErrorAnswer]:
    """Return the status and the body that tell an error."""
    status, code = _kind(error)
    hint = None if error.hint is None else redact(error.hint)
    problems = error.problems if isinstance(error, Faulty) else ()
    fault = Fault(code=code, message=redact(error.message), hint=hint, problems=problems)
    return status, ErrorAnswer(error=fault)


def internal_error() -> LlmgwError:
    """Return what is told of a fault of ours: the log has the rest."""
    return LlmgwError(
        "the control plane failed on this request", hint="its log says why; please report it"
    )


def refusal(error: LlmgwError) -> Response:
    """Return the response that tells an error."""
    status, body = error_answer(error)
    headers = error.headers if isinstance(error, TurnedAway) else {}
    return json_response(msgspec.json.encode(body), status, headers)


def json_response(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response; an empty body has no type."""
    kind = {"Content-Type": "application/json"} if body else {}
    return Response(body, status, headers={**HEADERS, **kind, **(headers or {})})


def _kind(error: LlmgwError) -> tuple[int, str]:
    if isinstance(error, TurnedAway):
        return error.status, error.code
    for kind, status, code in _STATUS:
        if isinstance(error, kind):
            return status, code
    return 500, "failed"
