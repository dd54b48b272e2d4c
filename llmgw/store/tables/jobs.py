"""Jobs: all that go on, and the newest of those that are over."""

import msgspec
from sqlite_utils import Database

from llmgw.model.jobs import Job
from llmgw.store.rules.bounds import JOBS
from llmgw.store.rules.jobs import audited, not_there
from llmgw.store.tables import audit
from llmgw.store.tables.rows import change, every, first

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Job).decode


def put(db: Database, job: Job) -> None:
    """Add or replace a job, and drop old ones that are over."""
    if first(db, "SELECT id FROM jobs WHERE id = ?", (job.id,)) is None:
        audit.add(db, audited(job))
    change(
        db,
        "INSERT INTO jobs (id, created, changed, over, value) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET created = excluded.created, changed = excluded.changed,"
        " over = excluded.over, value = excluded.value",
        (job.id, job.created, job.changed, int(job.over), _encode(job).decode()),
    )
    change(
        db,
        "DELETE FROM jobs WHERE over = 1 AND id NOT IN (SELECT id FROM jobs WHERE over = 1"
        " ORDER BY changed DESC, id DESC LIMIT ?)",
        (JOBS,),
    )


def every_one(db: Database) -> tuple[Job, ...]:
    """Return all jobs, newest first."""
    rows = every(db, "SELECT value FROM jobs ORDER BY created DESC, id DESC")
    return tuple(_decode(row["value"]) for row in rows)


def one(db: Database, job_id: str) -> Job:
    """Return one job."""
    row = first(db, "SELECT value FROM jobs WHERE id = ?", (job_id,))
    if row is None:
        raise not_there(job_id)
    return _decode(row["value"])
