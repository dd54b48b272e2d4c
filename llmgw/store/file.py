"""A store's file: private, ours, whole, at this program's schema."""

import os
from collections.abc import Sequence
from pathlib import Path

from sqlite_utils import Database

from llmgw.base.errors import Unreachable
from llmgw.base.places import check_private, private_dir
from llmgw.store.failures import damaged
from llmgw.store.migrations import migrations
from llmgw.store.migrations.step import Step
from llmgw.store.tables import about

_MAGIC = b"SQLite format 3\0"
_BUSY_MILLISECONDS = 5000
"""How long to wait for a reader of another program, such as a backup, to let go."""


def private(path: Path) -> None:
    """Make the directory (0700) and the file (0600), or check that nobody else may enter.

    Raises:
        Refused: others may, with the chmod line; or the file is something else.
        Unreachable: they can't be made there.
    """
    try:
        private_dir(path.parent)
        if path.exists():
            check_private(path)
            _check_begin(path)
        else:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise Unreachable(
            f"{path}: can't be made: {os.strerror(error.errno or 0)}",
            hint=f"make {path.parent} writable for this user, or name another with --state-dir",
        ) from error


def opened(path: Path, *, steps: Sequence[Step], version: str, holder: str) -> Database:
    """Open the file, bring it to the newest schema, and return it.

    The schema's steps are one transaction: a step that fails leaves the file as it was before. The
    caller has the hold and closes what it gets.
    """
    db = Database(path, execute_plugins=False)
    try:
        _set(db)
        _check(db, path)
        with db.atomic():
            about.check_schema(db, str(path), len(steps), version)
            migrations(steps).apply(db)
            db.execute(f"PRAGMA application_id = {about.APPLICATION}")
            about.note(db, schema=len(steps), version=version, holder=holder)
    except BaseException:
        db.close()
        raise
    return db


def _check_begin(path: Path) -> None:
    """Refuse a file that does not begin as SQLite's do; an empty one is a new store.

    SQLite itself takes a file that is shorter than a page for an empty one and writes over it.
    """
    with path.open("rb") as file:
        begin = file.read(len(_MAGIC))
    if begin and begin != _MAGIC:
        raise damaged(path, f"it begins with {begin!r}")


def _set(db: Database) -> None:
    db.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA secure_delete = ON")


def _check(db: Database, path: Path) -> None:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    if application != about.APPLICATION and db.table_names():
        raise damaged(path, "it is a SQLite file of another program")
    found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if found != "ok":
        raise damaged(path, found)
    db.enable_wal()
