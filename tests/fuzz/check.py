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
"""Of a garbled text, where not every kind is as fast; a reader that backtracks takes more."""
TRIES = 12
"""Of which the best counts: what else a machine does is not a reader's cost."""
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
    kilobytes = max(1.0, len(text) / 1000)
    took = (time.thread_time() - begin) * 1000
    if took > SLOW_MS_PER_KB * kilobytes:
        again = min(_milliseconds(reader, text) for _ in range(TRIES))
        if again > SLOW_MS_PER_KB * kilobytes:
            return f"{again / kilobytes:.1f} ms a KB"
    return next(
        (f"{value!r} does not fit a message" for value in _leaves(record) if not _fits(value)),
        None,
    )


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
