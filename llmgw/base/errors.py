"""Errors by what a caller can do about them, and the exit code that each one becomes."""

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_REFUSED = 4
EXIT_UNREACHABLE = 5
EXIT_TIMED_OUT = 6
EXIT_PARTLY_DONE = 7
EXIT_RESTART_WANTED = 75


class LlmgwError(Exception):
    """Root of what llmgw raises on purpose: one line for a person, and what to do about it.

    Args:
        message: one line that says what is wrong and where; foreign text in it is quoted.
        hint: one line that says what to do, or None when the message already does.
    """

    exit_code = EXIT_FAILED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Unreadable(LlmgwError):
    """Input that could not be read; the message quotes the offending text."""


class Usage(LlmgwError):
    """A command or a configuration that a person has to change before it can work."""

    exit_code = EXIT_USAGE


class NotFound(LlmgwError):
    """The named thing does not exist."""

    exit_code = EXIT_NOT_FOUND


class Refused(LlmgwError):
    """The other side understood and said no: rights, quota, a rule."""

    exit_code = EXIT_REFUSED


class Conflict(LlmgwError):
    """The thing changed meanwhile, or is already there in another form."""

    exit_code = EXIT_REFUSED


class Unreachable(LlmgwError):
    """The other side could not be spoken to; trying later may help."""

    exit_code = EXIT_UNREACHABLE


class TimedOut(LlmgwError):
    """The other side did not answer before the deadline."""

    exit_code = EXIT_TIMED_OUT


class PartlyDone(LlmgwError):
    """Some of the asked-for things were done and some were not."""

    exit_code = EXIT_PARTLY_DONE
