"""Jobs: all that go on, and the newest of those that are over."""

from llmgw.model.jobs import Job
from llmgw.store.rules.jobs import audited, dropped, not_there
from llmgw.store.values.audit import Audit
from llmgw.store.values.rows import as_kept


class JobRows:
    """Jobs by id."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._rows: dict[str, Job] = {}

    def put(self, job: Job) -> None:
        """Add or replace a job, and drop old ones that are over."""
        if job.id not in self._rows:
            self._audit.add(audited(job))
        self._rows[job.id] = as_kept(job)
        for old in dropped(self._rows.values()):
            del self._rows[old]

    def every(self) -> tuple[Job, ...]:
        """Return all jobs, newest first."""
        rows = sorted(self._rows.values(), key=lambda job: (job.created, job.id), reverse=True)
        return tuple(as_kept(job) for job in rows)

    def one(self, job_id: str) -> Job:
        """Return one job."""
        if job_id not in self._rows:
            raise not_there(job_id)
        return as_kept(self._rows[job_id])
