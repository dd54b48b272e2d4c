"""Work that has steps and may outlive a leader: who asked for it, and how far it is."""

from llmgw.model.catalog import Model
from llmgw.model.record import Record

QUEUED = "queued"
RUNNING = "running"
DONE = "done"
FAILED = "failed"
CANCELLED = "cancelled"
STATES = (QUEUED, RUNNING, DONE, FAILED, CANCELLED)
"""Of a job."""
OVER = frozenset({DONE, FAILED, CANCELLED})
"""States that a job leaves only when somebody lets it go on."""

WAITING = "waiting"
SKIPPED = "skipped"
STEP_STATES = (WAITING, RUNNING, DONE, FAILED, CANCELLED, SKIPPED)
"""Of a step; `skipped`: there was nothing to do."""


class JobProgress(Record, frozen=True, kw_only=True):
    """How far a step is: `done` of `total`, in its own unit (bytes of a fetch, replicas, nodes)."""

    words: str | None = None
    done: int | None = None
    total: int | None = None


class JobPart(Record, frozen=True, kw_only=True):
    """A node's share of a step."""

    name: str
    """The node."""
    state: str = WAITING
    """As a step's."""
    progress: JobProgress | None = None
    reason: str | None = None


class JobStep(Record, frozen=True, kw_only=True):
    """One step of a job, in the order in which they are done."""

    name: str
    """`plan`, `check source`, `fetch` …"""
    state: str = WAITING
    progress: JobProgress | None = None
    reason: str | None = None
    """Why it failed, was skipped or waits, in words."""
    parts: tuple[JobPart, ...] = ()
    """Of a step that several nodes do at once, by node."""


class ServeJob(Record, frozen=True, kw_only=True, tag_field="kind", tag="serve"):
    """Serve a model: from its plan to ready replicas."""

    model: Model
    version: int = 0
    """The catalog's version of it when the job began; 0: it was not there."""
    within: float | None = None
    """Seconds after which a job that does not serve it fails; None: it goes on as long as anything
    is left to try."""


JobSpec = ServeJob
"""What a job is for; a union of tagged records as kinds are added."""


class Job(Record, frozen=True, kw_only=True):
    """Topic `jobs`. Times in seconds since the epoch."""

    id: str
    subject: str
    """What it is about: a model's name, a node."""
    actor: str
    """Who asked for it."""
    created: float
    changed: float
    state: str = QUEUED
    reason: str | None = None
    """Why it failed or was cancelled, in words."""
    hint: str | None = None
    """What to do about it, where trying it again is no help."""
    until: float | None = None
    """When it fails unless it is done; None: it has no such limit."""
    steps: tuple[JobStep, ...] = ()
    spec: ServeJob

    @property
    def kind(self) -> str:
        """Return what sort of job it is: the tag of its spec."""
        return str(self.spec.__struct_config__.tag)

    @property
    def over(self) -> bool:
        """Say whether nothing more comes of it."""
        return self.state in OVER
