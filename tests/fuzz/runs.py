"""Long runs of one character: what costs the square of their length shows itself."""

import random
import time

from llmgw.base.errors import Unreadable
from tests.fuzz.check import MS_PER_KB, TRIES
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
    """Return what is wrong with a reader on one text with a run in it; None when nothing is."""
    read = by_name()[tool].read
    text, words = stretched(recordings(tool)[file], number, length)
    least = float("inf")
    for _ in range(TRIES):
        begin = time.thread_time()
        try:
            read(text)
        except Unreadable as error:
            if not str(error).isprintable() or len(str(error)) > 1000:
                return f"{words}: an error that can't be shown: {str(error)[:200]!r}"
        except Exception as error:  # noqa: BLE001 (what is looked for)
            return f"{words}: {type(error).__name__}: {error}"
        least = min(least, (time.thread_time() - begin) * 1000 / (len(text) / 1000))
        if least <= MS_PER_KB:
            return None
    return f"{words}: {least:.1f} ms a KB"
