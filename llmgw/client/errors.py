"""What the admin API's refusals become on the caller's side."""

import json

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


class Unauthorized(Refused):
    """The control plane does not know the token, or none was sent."""


class Rejected(Unreadable):
    """What was sent has problems; each with its path, in the order in which they were found."""

    def __init__(
        self, message: str, *, hint: str | None = None, problems: tuple[tuple[str, str], ...]
    ) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems
        """(path, words) of each."""


_BY_CODE: dict[str, type[LlmgwError]] = {
    "unauthorized": Unauthorized,
    "too_many_tries": Refused,
    "refused": Refused,
    "not_found": NotFound,
    "conflict": Conflict,
    "usage": Usage,
    "version_needed": Usage,
    "unreadable": Unreadable,
    "unreachable": Unreachable,
    "timed_out": TimedOut,
}
_BY_STATUS: dict[int, type[LlmgwError]] = {
    401: Unauthorized,
    403: Refused,
    404: NotFound,
    408: TimedOut,
    409: Conflict,
    428: Usage,
    429: Refused,
    502: Unreachable,
    503: Unreachable,
    504: TimedOut,
}


def from_answer(status: int, body: bytes, where: str) -> LlmgwError:
    """Return the error that an answer tells.

    Args:
        status: the HTTP status, not of the 200s.
        body: what was answered; anything, since a proxy may have answered.
        where: the server's address, for answers that are not llmgw's.
    """
    said = _said(body)
    if said is None:
        kind = _BY_STATUS.get(status, LlmgwError)
        return kind(f"{where} answered {status}", hint="is that llmgw's admin address?")
    message, hint = _text(said.get("message")) or f"{where} answered {status}", said.get("hint")
    hint_text = _text(hint)
    if problems := _problems(said.get("problems")):
        return Rejected(message, hint=hint_text, problems=problems)
    kind = _BY_CODE.get(str(said.get("code")), _BY_STATUS.get(status, LlmgwError))
    return kind(message, hint=hint_text)


def _said(body: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(body)
    except ValueError:
        return None
    said = value.get("error") if isinstance(value, dict) else None
    return said if isinstance(said, dict) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _problems(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list):
        return ()
    return tuple(
        (str(one.get("path", "")), str(one.get("words", "")))
        for one in value
        if isinstance(one, dict)
    )
