"""The SQLite store's file: private, held by one, refused in words when it can't be used."""

# ruff: noqa: ASYNC221, ASYNC240 (these tests look at small local files between two calls)

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from sqlite_utils import Database

from llmgw.base.errors import LlmgwError, Refused, Unreachable
from llmgw.store.migrations import STEPS
from llmgw.store.migrations.step import Step
from llmgw.store.sqlite import SqliteStore
from tests.flow.store import samples


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "llmgw.db"


def store_at(path: Path, **more) -> SqliteStore:
    return SqliteStore(path, version="0.1.0", **more)


async def written(path: Path) -> None:
    """Leave a store with one model at a path."""
    store = store_at(path)
    await store.open("writer")
    await store.put_model(samples.model(), expected=0, actor="ana", at=1.0)
    await store.close()


async def opening(path: Path, **more) -> LlmgwError:
    """Return the error that opening raises; the hold is let go with it."""
    store = store_at(path, **more)
    with pytest.raises(LlmgwError) as caught:
        await store.open("another")
    await store.close()
    assert "\n" not in caught.value.message
    return caught.value


async def names(path: Path) -> list[str]:
    store = store_at(path)
    await store.open("reader")
    found = [entry.model.name for entry in await store.models()]
    await store.close()
    return found


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_files_are_for_their_owner_alone(path: Path):
    old = os.umask(0)
    try:
        store = store_at(path)
        await store.open("a")
        await store.put_model(samples.model(), expected=0, actor="ana", at=1.0)
        assert mode(path.parent) == 0o700
        assert sorted((p.name, mode(p)) for p in path.parent.iterdir()) == [
            (f"llmgw.db{end}", 0o600) for end in ("", "-shm", "-wal", ".lock")
        ]
        await store.close()
    finally:
        os.umask(old)


async def test_it_writes_through_to_the_disk(path: Path):
    store = store_at(path)
    await store.open("a")
    db = store._db
    assert db is not None
    found = await store._on_thread(
        lambda: [db.execute(f"PRAGMA {n}").fetchone()[0] for n in ("journal_mode", "synchronous")]
    )
    assert found == ["wal", 2]
    await store.close()


@pytest.mark.parametrize(("bad", "line"), [("file", "chmod 600"), ("directory", "chmod 700")])
async def test_what_others_may_read_is_refused_with_the_chmod_line(path: Path, bad: str, line: str):
    await written(path)
    target = path if bad == "file" else path.parent
    target.chmod(mode(target) | 0o044)
    error = await opening(path)
    assert isinstance(error, Refused)
    assert error.hint == f"run: {line} {target}"
    target.chmod(mode(target) & 0o700)
    assert await names(path) == ["qwen"]


async def test_a_second_process_is_refused_with_the_pid_of_the_first(path: Path):
    store = store_at(path)
    await store.open("cp-1")
    script = (
        "import asyncio, sys, pathlib\n"
        "from llmgw.store.sqlite import SqliteStore\n"
        "from llmgw.base.errors import Refused\n"
        "async def main():\n"
        "    try:\n"
        "        await SqliteStore(pathlib.Path(sys.argv[1]), version='0.1.0').open('cp-2')\n"
        "    except Refused as error:\n"
        "        print(error.message); print(error.hint)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, check=True
    )
    message, hint = done.stdout.splitlines()
    assert message == f"{path}: control plane 'cp-1' (pid {os.getpid()}) holds this store"
    assert f"kill {os.getpid()}" in hint
    await store.put_model(samples.model(), expected=0, actor="ana", at=1.0)
    await store.close()


async def test_an_older_program_on_a_newer_store_is_refused_naming_both_versions(path: Path):
    await written(path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE store SET schema = 7, version = '0.9.0'")
    db.close()
    error = await opening(path)
    assert isinstance(error, Refused)
    assert error.message == (
        f"{path}: has schema 7, written by llmgw 0.9.0; "
        f"this is llmgw 0.1.0, which knows schemas up to {len(STEPS)}"
    )
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT term, holder FROM store").fetchone() == (0, "writer")
        db.execute("UPDATE store SET schema = ?", (len(STEPS),))
    db.close()
    assert await names(path) == ["qwen"]


async def test_a_step_that_fails_leaves_the_former_schema_and_every_row(path: Path):
    await written(path)

    def good(db: Database) -> None:
        db.execute("ALTER TABLE nodes ADD COLUMN extra TEXT")

    def bad(db: Database) -> None:
        db.execute("DELETE FROM model_versions")
        db.execute("INSERT INTO absent VALUES (1)")

    steps = (*STEPS, Step("m9998_good", good), Step("m9999_bad", bad))
    error = await opening(path, steps=steps)
    assert "no such table: absent" in error.message
    with sqlite3.connect(path) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(nodes)")]
        assert db.execute("SELECT schema, term FROM store").fetchone() == (len(STEPS), 0)
    db.close()
    assert "extra" not in columns
    assert await names(path) == ["qwen"]


async def test_a_further_step_is_applied_once_and_the_schema_number_follows(path: Path):
    await written(path)

    def further(db: Database) -> None:
        db.execute("ALTER TABLE nodes ADD COLUMN extra TEXT")

    steps = (*STEPS, Step("m9999", further))
    for _ in range(2):
        store = store_at(path, steps=steps)
        await store.open("a")
        await store.close()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT schema FROM store").fetchone() == (len(STEPS) + 1,)
    db.close()
    assert f"knows schemas up to {len(STEPS)}" in (await opening(path)).message


async def test_a_store_of_the_first_release_is_brought_to_the_newest_schema(path: Path):
    first = store_at(path, steps=STEPS[:1])
    await first.open("a")
    await first.put_model(samples.model(), expected=0, actor="ana", at=1.0)
    await first.close()
    store = store_at(path)
    await store.open("b")
    assert [entry.model.name for entry in await store.models()] == ["qwen"]
    assert await store.traffic() == ()
    await store.close()


@pytest.mark.parametrize("content", [b"not a database at all, but long enough" * 40, b"x"])
async def test_a_file_that_is_no_store_is_refused_and_left_as_it_is(path: Path, content: bytes):
    path.parent.mkdir(mode=0o700)
    path.write_bytes(content)
    path.chmod(0o600)
    error = await opening(path)
    assert isinstance(error, Refused)
    assert "is damaged or not a store of llmgw" in error.message
    assert path.read_bytes() == content


async def test_a_sqlite_file_of_another_program_is_refused_and_left_as_it_is(path: Path):
    path.parent.mkdir(mode=0o700)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (id)")
    db.close()
    path.chmod(0o600)
    content = path.read_bytes()
    error = await opening(path)
    assert "another program" in error.message
    assert path.read_bytes() == content


async def test_a_store_with_a_damaged_page_is_refused_in_one_line(path: Path):
    await written(path)
    content = bytearray(path.read_bytes())
    for offset in range(8192, len(content), 4096):
        content[offset : offset + 64] = b"\xff" * 64
    path.write_bytes(bytes(content))
    error = await opening(path)
    assert isinstance(error, Refused)
    assert "is damaged" in error.message


async def test_a_row_that_this_program_cannot_read_is_refused_and_not_replaced(path: Path):
    await written(path)
    with sqlite3.connect(path) as db:
        db.execute("""UPDATE model_versions SET value = '{"name": "qwen", "colour": 1}'""")
    db.close()
    store = store_at(path)
    await store.open("a")
    with pytest.raises(Refused, match="can't read"):
        await store.models()
    with pytest.raises(Refused, match="can't read"):
        await store.put_model(samples.model(replicas=2), expected=None, actor="ana", at=2.0)
    await store.close()


async def test_a_full_disk_is_unreachable_and_loses_nothing(path: Path):
    store = store_at(path)
    await store.open("a")
    first = await store.put_model(samples.model(), expected=0, actor="ana", at=1.0)
    db = store._db
    assert db is not None
    await store._on_thread(lambda: db.execute("PRAGMA max_page_count = 1"))
    big = samples.model("big", arguments=("x" * 200_000,))
    with pytest.raises(Unreachable, match="disk is full") as caught:
        await store.put_model(big, expected=0, actor="ana", at=2.0)
    assert caught.value.hint
    assert await store.models() == (first,)
    assert len(await store.audit()) == 1
    await store._on_thread(lambda: db.execute("PRAGMA max_page_count = 100000"))
    await store.put_model(big, expected=0, actor="ana", at=3.0)
    assert await store.verify_audit() is None
    await store.close()


def as_nobody(path: Path) -> str:
    """Open a store as a user that may not write there; return what is said, or `opened`."""
    script = (
        "import asyncio, os, sys, pathlib\n"
        "from llmgw.store.sqlite import SqliteStore\n"
        "from llmgw.base.errors import LlmgwError\n"
        "async def main(path):\n"
        "    store = SqliteStore(path, version='0.1.0')\n"
        "    try:\n"
        "        await store.open('x'); print('opened')\n"
        "    except LlmgwError as error:\n"
        "        print(type(error).__name__, error.message)\n"
        "    await store.close()\n"
        "asyncio.run(main(pathlib.Path(sys.argv[1]) / 'first' / 'llmgw.db'))\n"
        "if os.geteuid() == 0:\n"
        "    os.setuid(65534)\n"
        "asyncio.run(main(pathlib.Path(sys.argv[2])))\n"
    )
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            [sys.executable, "-c", script, scratch, path],
            capture_output=True,
            text=True,
            check=True,
        )
    opened, said = done.stdout.splitlines()
    assert opened == "opened"
    return said


@pytest.mark.parametrize("there", [True, False])
async def test_a_directory_that_cannot_be_written_is_refused_in_one_line(there: bool):
    with tempfile.TemporaryDirectory() as made:
        parent = Path(made) / "state"
        path = parent / "llmgw.db"
        if there:
            await written(path)
            path.with_name("llmgw.db.lock").unlink()
        else:
            parent.mkdir(mode=0o700)
        Path(made).chmod(0o755)
        for file in (*parent.iterdir(), parent):
            if os.geteuid() == 0:
                os.chown(file, 65534, 65534)
        parent.chmod(0o500)
        said = as_nobody(path)
        assert said == f"Refused {parent}: mode 500 keeps its own user out"
        parent.chmod(0o700)


async def test_after_close_every_call_is_unreachable_in_words(path: Path):
    store = store_at(path)
    with pytest.raises(Unreachable, match="not open"):
        await store.models()
    await store.open("a")
    await store.close()
    await store.close()
    with pytest.raises(Unreachable, match="closed"):
        await store.models()


async def test_calls_that_were_asked_before_close_are_done(path: Path):
    store = store_at(path)
    await store.open("a")
    put = asyncio.ensure_future(store.put_model(samples.model(), expected=0, actor="ana", at=1.0))
    await asyncio.sleep(0)
    await store.close()
    await put
    assert await names(path) == ["qwen"]


async def test_nothing_that_was_removed_stays_readable_in_the_file(path: Path):
    store = store_at(path)
    await store.open("a")
    await store.put_key(samples.key(sha256="5e" * 32), actor="ana", at=1.0)
    await store.remove_key("k1", actor="ana", at=2.0)
    await store.close()
    assert b"5e" * 32 not in path.read_bytes()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE audit SET actor = 'eve' WHERE number = 2", "row 2 was changed"),
        ("DELETE FROM audit WHERE number = 2", "row 2 is missing"),
        ("DELETE FROM audit WHERE number = 3", "ends at row 2; 3 rows were written"),
        ("UPDATE audit SET former = sha256 WHERE number = 2", "row 2 does not follow"),
    ],
)
async def test_a_changed_audit_is_seen_and_said(path: Path, change: str, words: str):
    store = store_at(path)
    await store.open("a")
    for number in range(3):
        await store.put_model(samples.model(f"m{number}"), expected=0, actor="ana", at=1.0)
    await store.close()
    with sqlite3.connect(path) as db:
        db.execute(change)
    db.close()
    again = store_at(path)
    await again.open("b")
    assert words in (await again.verify_audit() or "")
    await again.close()
