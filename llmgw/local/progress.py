"""Progress of a long command: one line that changes on a terminal, a line a step elsewhere."""

import shutil
import time
from typing import TextIO

TURN = "|/-\\"


class Progress:
    """Says on `out` what is being waited for."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = out.isatty()
        self._step = ""
        self._turns = 0
        self._begin = time.monotonic()

    def step(self, words: str) -> None:
        """Say what is being done now; the same words again only turn the mark."""
        if self._live:
            self._turns += 1
            width = shutil.get_terminal_size().columns - 1
            line = f"{TURN[self._turns % 4]} {self._elapsed()} {words}"
            self._out.write(f"\r\x1b[K{line[:width]}")
            self._out.flush()
        elif _without_figures(words) != _without_figures(self._step):
            self._out.write(f"{self._elapsed()} {words}\n")
            self._out.flush()
        self._step = words

    def say(self, words: str) -> None:
        """Say something that stays."""
        self.done()
        self._out.write(f"{words}\n")
        self._out.flush()

    def done(self) -> None:
        """Take the changing line away."""
        if self._live:
            self._out.write("\r\x1b[K")
            self._out.flush()

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._begin:4.0f}s"


def _without_figures(words: str) -> str:
    """Return what a step is about: a growing count of bytes is not another step."""
    return words.partition("(")[0]
