"""What has to hold of a reader whatever it is given."""

import contextlib
import math
import time
from collections.abc import Iterator

import msgspec

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.tool import Tool
from tests.fuzz.corpus import by_name, recordings
from tests.fuzz.mutate import made_absent, mutated

MS_PER_KB = 1.0
SLOW_MS_PER_KB = 5.0
"""Of a garbled text, where not every kind is as fast: beyond it the cost must not grow either."""
MOST_MS_PER_KB = 50.0
GROWN = 1.4
"""How much more a KB of twice the text costs, at least, where a pattern costs its square."""
INT64 = 1 << 63


def complaint(tool: str, file: str, seed: int) -> str | None:
    """Return what is wrong with a reader on one example; None when nothing is."""
    reader, texts = by_name()[tool], recordings(tool)
    text = texts[file]
    return _of_garbled(reader, mutated(tuple(texts.values()), text, seed)) or _of_absent(
        reader, text, seed
    )


def slowness(tool: str, file: str) -> float:
    """Return the milliseconds a KB on a recorded text, the best of five; a KB is the least."""
    reader, text = by_name()[tool], recordings(tool)[file]
    return min(_milliseconds(reader, text) for _ in range(5)) / max(1.0, len(text) / 1000)


def _of_garbled(reader: Tool, text: str) -> str | None:
    begin = time.thread_time()
    try:
        record = reader.read(text)
    except Unreadable as error:
        record = None
        if not str(error).isprintable() or len(str(error)) > 1000:
            return f"an error that can't be shown: {str(error)[:200]!r}"
    except Exception as error:  # noqa: BLE001 (what is looked for)
        return f"{type(error).__name__}: {error}"
    took = (time.thread_time() - begin) * 1000 / max(1.0, len(text) / 1000)
    if took > SLOW_MS_PER_KB and (words := _too_slow(reader, text)):
        return words
    return next(
        (f"{value!r} does not fit a message" for value in _leaves(record) if not _fits(value)),
        None,
    )


def _too_slow(reader: Tool, text: str) -> str | None:
    """Say that a reader takes too long on a text, or that it grows faster than the text does."""
    once, twice = (
        min(_milliseconds(reader, long) for _ in range(3)) / max(1.0, len(long) / 1000)
        for long in (text, f"{text}\n{text}")
    )
    grows = once > SLOW_MS_PER_KB and twice > GROWN * once
    return f"{once:.1f} ms a KB, {twice:.1f} of twice" if grows or once > MOST_MS_PER_KB else None


def _of_absent(reader: Tool, text: str, seed: int) -> str | None:
    """Say whether a zero appeared when a number that was not zero said that it is not known."""
    without = made_absent(text, seed)
    if without is None:
        return None
    try:
        before, after = _zeros(reader.read(text)), _zeros(reader.read(without))
    except Unreadable:
        return None
    return f"{after} zeros instead of {before} with one number absent" if after > before else None


def _zeros(record: object) -> int:
    return sum(1 for value in _leaves(record) if value == 0 and not isinstance(value, bool))


def _fits(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or -INT64 <= value < INT64


def _leaves(record: object) -> Iterator[object]:
    if isinstance(record, msgspec.Struct):
        record = [getattr(record, name) for name in record.__struct_fields__]
    if isinstance(record, dict):
        record = list(record.values())
    if isinstance(record, list | tuple | set | frozenset):
        for part in record:
            yield from _leaves(part)
    else:
        yield record


def _milliseconds(reader: Tool, text: str) -> float:
    begin = time.thread_time()
    with contextlib.suppress(Unreadable):
        reader.read(text)
    return (time.thread_time() - begin) * 1000
