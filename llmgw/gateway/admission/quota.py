"""A key's limits as one worker keeps them.

What is not known when a request comes is settled as a debt. It is admitted while less than the
limit is used, and reserves what its prompt may be: min(bytes of its body / 4, `RESERVED_MOST`)
tokens. What it produces is charged as it passes; when the engine says what the prompt was, that
takes the place of the reservation. So in any window a key may pass a limit of tokens by what the
requests that run at once bring beyond their reservations, and nothing is admitted until the window
has slid past it. A limit of requests is passed by at most one for each further worker, which may
admit at the same instant.
"""

import math
from collections.abc import Callable

from llmgw.base.units import counted, show_seconds
from llmgw.gateway.admission.window import floor, free_in
from llmgw.gateway.key_cells import (
    CONCURRENT_AT,
    LIMITS,
    MORE_AT,
    NONE,
    PER_MINUTE,
    REQUESTS,
    RUNNING,
    SHORT,
    TOKENS,
    TOKENS_PER_DAY,
    TOKENS_PER_MINUTE,
    KeyCells,
    Limit,
)
from llmgw.gateway.proxy.usage import BYTES_A_TOKEN
from llmgw.gateway.refusals import Refusal, quoted
from llmgw.model.keys import Key

RESERVED_MOST = 8192
"""Tokens reserved for one prompt: the bytes of a picture say nothing of its tokens."""
LOOK = 0.5
"""Seconds between two looks of the parent at what was used: a window slides in such steps."""
LENT_AGAIN = 2
"""Seconds within which a gateway that lacks what others have is lent it."""
ELSEWHERE_AGAIN = 5
"""Seconds after which to ask again where other gateways have used a limit up."""
RUNNING_AGAIN = 1
"""Seconds after which to ask again whether a running request has ended."""
_RESET = b"1m1s"
"""The longest that anything stays counted in a window of a minute."""

_WORDS = {
    PER_MINUTE.name: ("request", "minute"),
    TOKENS_PER_MINUTE.name: ("token", "minute"),
    TOKENS_PER_DAY.name: ("token", "day"),
}


class Charge:
    """What one admitted request costs its key; closed exactly once."""

    __slots__ = ("_cells", "_column", "_reserved")

    def __init__(self, cells: KeyCells, column: int, prompt_bytes: int) -> None:
        self._cells = cells
        self._column = column
        self._reserved = min(-(-prompt_bytes // BYTES_A_TOKEN), RESERVED_MOST)
        cells.add(REQUESTS, column, 1)
        cells.add(RUNNING, column, 1)
        cells.add(TOKENS, column, self._reserved)

    def prompt(self, tokens: int) -> None:
        """Charge the prompt in place of what was reserved for it."""
        self._cells.add(TOKENS, self._column, tokens - self._reserved)
        self._reserved = 0

    def completion(self, tokens: int) -> None:
        """Charge what was produced; less than none corrects what was charged too much."""
        self._cells.add(TOKENS, self._column, tokens)

    def closed(self) -> None:
        """Give back what was reserved and not charged; the request runs no longer."""
        if self._reserved:
            self._cells.add(TOKENS, self._column, -self._reserved)
        self._cells.add(RUNNING, self._column, -1)


class Quota:
    """Says of limited keys whether a request may go on.

    Args:
        cells: what keys used and may use.
        now: monotonic seconds, of the same clock in all processes of a machine.
    """

    def __init__(self, cells: KeyCells, now: Callable[[], float]) -> None:
        self._cells = cells
        self._now = now

    def admit(self, column: int, prompt_bytes: int) -> Charge:
        """Count a request; whether it may be was asked just before."""
        return Charge(self._cells, column, prompt_bytes)

    def reached(self, column: int) -> bool:
        """Say whether a limit of a key is reached."""
        cells, blocks = self._cells, self._cells.blocks
        at = cells.block(column)
        most = blocks[at + PER_MINUTE.at]
        if most >= 0 and cells.total(REQUESTS, column) - blocks[at + PER_MINUTE.at + 1] >= most:
            return True
        per_minute = blocks[at + TOKENS_PER_MINUTE.at]
        per_day = blocks[at + TOKENS_PER_DAY.at]
        if per_minute >= 0 or per_day >= 0:
            total = cells.total(TOKENS, column)
            if 0 <= per_minute <= total - blocks[at + TOKENS_PER_MINUTE.at + 1]:
                return True
            if 0 <= per_day <= total - blocks[at + TOKENS_PER_DAY.at + 1]:
                return True
        most = blocks[at + CONCURRENT_AT]
        return most >= 0 and cells.total(RUNNING, column) >= most

    def refusal(self, column: int, key: Key) -> Refusal:
        """Return why a key whose limit is reached is refused: the limit that lasts longest."""
        self._cells.add(SHORT, column, 1)
        over = [(self._free_in(limit, column), limit) for limit in LIMITS]
        wait, limit = max(over, key=lambda one: one[0])
        if wait <= 0:
            return self._too_many_run(column, key)
        most = getattr(key, limit.name)
        held = self._cells.blocks[self._cells.block(column) + limit.at]
        noun, per = _WORDS[limit.name]
        what = f"{counted(most, noun)} per {per}"
        used = f"its {what}"
        if held < most:
            used = f"the {held} of its {what} that this gateway was lent"
            if self._more(column):
                wait = LENT_AGAIN
            elif self._used(limit, column) <= 0:
                wait = ELSEWHERE_AGAIN
        seconds = math.ceil(wait)
        again = f"ask again in {show_seconds(seconds) if seconds >= 60 else f'{seconds} s'}"
        words = f"the API key {quoted(key.id)} has used {used}; {again}"
        return Refusal(f"over_{limit.name}", words, None, seconds)

    def lines(self, column: int, key: Key) -> bytes:
        """Return the headers in which OpenAI's clients look for limits, each with its line end."""
        lines = b""
        if key.requests_per_minute is not None:
            lines += self._lines(PER_MINUTE, b"requests", key.requests_per_minute, column)
        if key.tokens_per_minute is not None:
            lines += self._lines(TOKENS_PER_MINUTE, b"tokens", key.tokens_per_minute, column)
        return lines

    def _lines(self, limit: Limit, what: bytes, most: int, column: int) -> bytes:
        held = self._cells.blocks[self._cells.block(column) + limit.at]
        left = max(0, held - self._used(limit, column))
        return (
            b"x-ratelimit-limit-%b: %d\r\nx-ratelimit-remaining-%b: %d\r\n"
            b"x-ratelimit-reset-%b: %b\r\n" % (what, most, what, left, what, _RESET)
        )

    def _too_many_run(self, column: int, key: Key) -> Refusal:
        held = self._cells.blocks[self._cells.block(column) + CONCURRENT_AT]
        most = key.concurrent or 0
        running = f"{counted(most, 'request')} running"
        words = f"the API key {quoted(key.id)} has {running}, as many as it may have"
        if held < most:
            words = (
                f"the API key {quoted(key.id)} may have {running}, and this gateway "
                f"was lent {held} of them, which run"
            )
        words += "; there is room again when one of them ends"
        wait = LENT_AGAIN if held < most and self._more(column) else RUNNING_AGAIN
        return Refusal("over_concurrent", words, None, wait)

    def _free_in(self, limit: Limit, column: int) -> float:
        """Return the seconds until a limit is no longer reached; 0: it is not."""
        cells = self._cells
        most = cells.blocks[cells.block(column) + limit.at]
        if most == NONE or self._used(limit, column) < most:
            return 0.0
        newest, ring = cells.newest(limit), cells.ring(limit, column)
        total, now = cells.total(limit.count, column), self._now()
        return free_in(
            limit.window, ring, newest, total=total, limit=max(1, most), now=now, pause=LOOK
        )

    def _used(self, limit: Limit, column: int) -> int:
        cells = self._cells
        begin = floor(limit.window, cells.ring(limit, column), cells.newest(limit))
        return cells.total(limit.count, column) - begin

    def _more(self, column: int) -> bool:
        return bool(self._cells.blocks[self._cells.block(column) + MORE_AT])
