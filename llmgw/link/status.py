"""Our errors as gRPC statuses and back, so that a refusal reaches the other side in its words."""

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from llmgw.base.errors import (
    Conflict,
    LlmgwError,
    NotFound,
    Refused,
    TimedOut,
    Unreachable,
    Unreadable,
    Usage,
)
from llmgw.link.guard import TooLarge

_MOST = 2000
"""Characters of a message: it travels in a header."""

_STATUS: tuple[tuple[type[LlmgwError], Status], ...] = (
    (TooLarge, Status.RESOURCE_EXHAUSTED),
    (Unreadable, Status.INVALID_ARGUMENT),
    (Usage, Status.FAILED_PRECONDITION),
    (NotFound, Status.NOT_FOUND),
    (Refused, Status.PERMISSION_DENIED),
    (Conflict, Status.ALREADY_EXISTS),
    (TimedOut, Status.DEADLINE_EXCEEDED),
    (Unreachable, Status.UNAVAILABLE),
)

_ERROR: dict[Status, type[LlmgwError]] = {status: error for error, status in _STATUS}
_ERROR[Status.UNAUTHENTICATED] = Refused


def to_status(error: LlmgwError) -> GRPCError:
    """Return the status that carries an error; its hint is the second line of the message."""
    status = next((s for kind, s in _STATUS if isinstance(error, kind)), Status.UNKNOWN)
    words = error.message if error.hint is None else f"{error.message}\n{error.hint}"
    return GRPCError(status, words[:_MOST])


def from_status(error: GRPCError, peer: str) -> LlmgwError:
    """Return the error that a status carries, and that it came from `peer`."""
    words, _, hint = (error.message or "no reason given").partition("\n")
    if error.status is Status.UNIMPLEMENTED:
        return Refused(f"{peer}: does not know this request; is it an older llmgw?")
    kind = _ERROR.get(error.status, Unreachable)
    return kind(f"{peer}: {words}", hint=hint or None)
