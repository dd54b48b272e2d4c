"""What SQLite's errors mean to a person: one line, and what to do. Translated here alone."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from llmgw.base.errors import LlmgwError, Refused, Unreachable

_PRIMARY = 0xFF
"""An extended code's lowest byte is the code that it refines."""


@contextmanager
def in_words(path: Path) -> Iterator[None]:
    """Raise what SQLite, or a row that can't be read, raises inside as one of our own errors."""
    try:
        yield
    except sqlite3.Error as error:
        raise translated(error, path) from error
    except msgspec.MsgspecError as error:
        raise Refused(
            f"{path}: holds something that this program can't read: {error}",
            hint="use the llmgw that wrote it, or restore a backup",
        ) from error


def translated(error: sqlite3.Error, path: Path) -> LlmgwError:
    """Return one of our errors for one of SQLite's; nothing was changed when it was raised."""
    words = " ".join(str(error).split())
    match getattr(error, "sqlite_errorcode", 0) & _PRIMARY:
        case sqlite3.SQLITE_FULL:
            return Unreachable(
                f"{path}: the disk is full; nothing was changed",
                hint=f"free space on the filesystem of {path.parent}",
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
            return Unreachable(
                f"{path}: can't be written; nothing was changed: {words}",
                hint=f"make {path.parent} and its files writable for this user",
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Unreachable(
                f"{path}: another program has it locked; nothing was changed",
                hint=f"end what has it open; this names it: fuser {path}",
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return damaged(path, words)
        case _:
            return Unreachable(f"{path}: can't be used; nothing was changed: {words}")


def damaged(path: Path, words: str) -> Refused:
    """Return the refusal of a file that is not, or no longer, a store."""
    return Refused(
        f"{path}: is damaged or not a store of llmgw: {words}",
        hint="it was left as it is; move it aside and put a backup in its place",
    )
