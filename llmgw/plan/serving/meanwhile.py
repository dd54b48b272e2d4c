"""What somebody else did to a model while a job served it: go on with it, or end and say what."""

from shlex import quote

from llmgw.model.catalog import CatalogEntry, Model
from llmgw.model.changes import changes
from llmgw.model.check import fingerprint
from llmgw.model.jobs import Job
from llmgw.plan.words import some


def in_the_way(job: Job, entry: CatalogEntry | None) -> str | None:
    """Return why a model that is not in the catalog yet can't be put there any more.

    None: it can, or it is there.
    """
    spec = job.spec
    if entry is not None and entry.model == spec.model:
        return None
    if (entry.version if entry is not None else 0) == spec.version:
        return None
    if entry is None:
        return gone(job)
    return f"{_changed(job, entry)}; this job leaves it as it is"


def another(job: Job, entry: CatalogEntry) -> str | None:
    """Return why what the catalog has is not what a job serves; None: what it starts is the same.

    How many replicas are wanted, where and when, is nobody's to undo: a job goes on with that.
    """
    if _engines(entry.model) == _engines(job.spec.model):
        return None
    return f"{_changed(job, entry)}; what this job started gives way to it"


def gone(job: Job) -> str:
    """Say that a model is not there any more."""
    return (
        f"{job.subject} was taken out of the catalog since the job began; "
        "`llmgw ctl audit` says by whom"
    )


def note(job: Job, entry: CatalogEntry) -> str:
    """Return what somebody changed of a model that is served all the same; empty: nothing."""
    if entry.model == job.spec.model:
        return ""
    return f"{entry.changed_by} changed {some(changes(job.spec.model, entry.model))}"


def what_to_do(job: Job, entry: CatalogEntry | None) -> str:
    """Return what whoever asked for a job may do once it ended by somebody else's change."""
    if entry is None:
        return "serve its file again if it is still wanted: llmgw ctl model serve FILE"
    serve = f"serve what is there: llmgw ctl model serve {quote(job.subject)}"
    return f"{serve}; or put yours over it: serve your file again"


def _changed(job: Job, entry: CatalogEntry) -> str:
    differs = some(changes(job.spec.model, entry.model))
    return (
        f"{entry.changed_by} changed {job.subject} since the job began, it is at version "
        f"{entry.version} now ({differs})"
    )


def _engines(model: Model) -> set[tuple[str, str]]:
    """Return what its replicas are started with."""
    return {(profile.name, fingerprint(model, profile)) for profile in model.profiles}
