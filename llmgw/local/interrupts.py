"""Signals as exceptions, so that a command ends what it started on every way out."""

import signal
from types import FrameType


class Interrupted(BaseException):
    """A signal asked the command to end; not an error, so it passes through `except Exception`."""

    def __init__(self, which: signal.Signals) -> None:
        super().__init__(which.name)
        self.which = which

    @property
    def exit_code(self) -> int:
        """Return the shell's code of a command that a signal ended."""
        return 128 + self.which


def as_exceptions() -> None:
    """Raise `Interrupted` on SIGINT, SIGTERM and SIGHUP; a second signal changes nothing."""
    stops = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in stops:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(signal.Signals(number))

    for each in stops:
        signal.signal(each, stop)
