"""Long runs of one character: what costs the square of their length shows itself."""

import random
import time
from collections.abc import Callable

from llmgw.base.errors import Unreadable
from tests.fuzz.check import GROWN, MOST_MS_PER_KB, MS_PER_KB
from tests.fuzz.corpus import by_name, recordings

CHARACTERS = " \t\n\r07a-_\"',.:;=/\\|#<>()[]{}\0"
LENGTHS = (10_000, 200_000)
PLACES = ("in a line", "between lines", "behind the text")
EACH = len(CHARACTERS) * len(PLACES)
"""Runs of one length on one text."""


def edges(tool: str) -> tuple[str, ...]:
    """Return the shortest and the longest recording of a tool."""
    texts = recordings(tool)
    ordered = sorted(texts, key=lambda file: len(texts[file]))
    return tuple(dict.fromkeys((ordered[0], ordered[-1])))


def stretched(text: str, number: int, length: int) -> tuple[str, str]:
    """Return a text with a run in it, and what was done to it, the same for the same number."""
    character = CHARACTERS[number % len(CHARACTERS)]
    place = PLACES[number // len(CHARACTERS) % len(PLACES)]
    words = f"{length} times {character!r} {place}"
    run = character * length
    if place == PLACES[2]:
        return text + run, words
    lines = text.split("\n")
    at = random.Random(number).randrange(len(lines))
    if place == PLACES[1]:
        return "\n".join([*lines[:at], run, *lines[at:]]), words
    middle = len(lines[at]) // 2
    lines[at] = lines[at][:middle] + run + lines[at][middle:]
    return "\n".join(lines), words


def run_complaint(tool: str, file: str, number: int, length: int) -> str | None:
    """Return what is wrong with a reader on one text with a run in it; None when nothing is.

    A reader that costs more than `MS_PER_KB` is asked for the half of the run as well: with a
    pattern that costs the square of its length a KB of it costs half as much, with any other as
    much as before, however slow or busy the machine is.
    """
    text, words = stretched(recordings(tool)[file], number, length)
    read = by_name()[tool].read
    try:
        whole = _milliseconds_a_kb(read, text, enough=MS_PER_KB)
        if whole <= MS_PER_KB:
            return None
        part, _ = stretched(recordings(tool)[file], number, length // 2)
        half = _milliseconds_a_kb(read, part)
        whole = min(whole, _milliseconds_a_kb(read, text))
    except Unreadable as error:
        return f"{words}: an error that can't be shown: {str(error)[:200]!r}"
    except Exception as error:  # noqa: BLE001 (what is looked for)
        return f"{words}: {type(error).__name__}: {error}"
    if whole <= MOST_MS_PER_KB and whole < GROWN * half:
        return None
    return f"{words}: {whole:.1f} ms a KB, {half:.1f} with half of them"


def _milliseconds_a_kb(read: Callable[[str], object], text: str, *, enough: float = 0.0) -> float:
    """Return the best of four; fewer are tried when one takes no more than `enough`.

    Raises:
        Unreadable: a refusal in words that can't be shown.
    """
    least = float("inf")
    for _ in range(4):
        begin = time.thread_time()
        try:
            read(text)
        except Unreadable as error:
            if not str(error).isprintable() or len(str(error)) > 1000:
                raise
        least = min(least, (time.thread_time() - begin) * 1000 / (len(text) / 1000))
        if least <= enough:
            break
    return least
