"""The store's schema, step by step. A step that was released never changes; another follows it."""

from collections.abc import Sequence

from sqlite_utils import Database, Migrations

from llmgw.store.migrations import m0001_first, m0002_traffic, m0003_hardware, m0004_jobs
from llmgw.store.migrations.step import Step

STEPS: tuple[Step, ...] = (
    Step("m0001_first", m0001_first.make),
    Step("m0002_traffic", m0002_traffic.make),
    Step("m0003_hardware", m0003_hardware.make),
    Step("m0004_jobs", m0004_jobs.make),
)
"""In order; the schema's number is how many there are."""


def migrations(steps: Sequence[Step] = STEPS) -> Migrations:
    """Return the steps as the set that sqlite-utils applies and records."""
    found = Migrations("llmgw")
    for step in steps:
        found(name=step.name)(_Named(step))
    return found


class _Named:
    """A step in the form that sqlite-utils asks for: a callable with a name."""

    def __init__(self, step: Step) -> None:
        self.__name__ = step.name
        self._apply = step.apply

    def __call__(self, db: Database, /) -> None:
        self._apply(db)
