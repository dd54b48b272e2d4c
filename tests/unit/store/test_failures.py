"""SQLite's errors in words."""

import sqlite3
from pathlib import Path

import pytest

from llmgw.base.errors import LlmgwError, Refused, Unreachable
from llmgw.store.failures import in_words, translated

PATH = Path("/state/llmgw.db")


def failed(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("words of\nSQLite")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (sqlite3.SQLITE_FULL, Unreachable, "the disk is full"),
        (sqlite3.SQLITE_READONLY, Unreachable, "can't be written"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, Unreachable, "can't be written"),
        (sqlite3.SQLITE_CANTOPEN, Unreachable, "can't be written"),
        (sqlite3.SQLITE_BUSY, Unreachable, "another program has it locked"),
        (sqlite3.SQLITE_CORRUPT, Refused, "is damaged or not a store"),
        (sqlite3.SQLITE_NOTADB, Refused, "is damaged or not a store"),
        (sqlite3.SQLITE_IOERR_FSYNC, Unreachable, "can't be used"),
    ],
)
def test_each_failure_is_one_line_that_names_the_file(code: int, kind: type, words: str):
    error = translated(failed(code), PATH)
    assert type(error) is kind
    assert error.message.startswith("/state/llmgw.db: ")
    assert words in error.message
    assert "\n" not in error.message


def test_an_error_of_our_own_passes_through_unchanged():
    mine = Refused("no")
    with pytest.raises(LlmgwError) as caught, in_words(PATH):
        raise mine
    assert caught.value is mine


def test_an_error_without_a_code_is_still_in_words():
    with pytest.raises(Unreachable, match="bad parameter"), in_words(PATH):
        raise sqlite3.InterfaceError("bad parameter")
