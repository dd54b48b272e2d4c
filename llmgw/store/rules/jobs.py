"""Which jobs are kept, and what is said of them."""

from collections.abc import Iterable

from llmgw.base.errors import NotFound
from llmgw.model.events import AuditEntry
from llmgw.model.jobs import Job
from llmgw.store.rules.bounds import JOBS
from llmgw.store.shown import as_json


def audited(job: Job) -> AuditEntry:
    """Return what the audit says of a job that is new; how it goes on is nobody's change."""
    return AuditEntry(
        at=job.created,
        actor=job.actor,
        action=f"job.{job.kind}",
        subject=job.subject,
        before=None,
        after=as_json({"id": job.id, "spec": job.spec}),
    )


def not_there(job_id: str) -> NotFound:
    """Return the refusal of a job that is not kept."""
    return NotFound(
        f"{job_id}: there is no such job, or it ended long ago", hint="llmgw ctl jobs lists them"
    )


def dropped(jobs: Iterable[Job]) -> tuple[str, ...]:
    """Return the ids of the jobs that are kept no longer: the oldest of those that are over."""
    over = sorted((job for job in jobs if job.over), key=lambda job: (job.changed, job.id))
    return tuple(job.id for job in over[: max(0, len(over) - JOBS)])
