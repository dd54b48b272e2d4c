"""An agent that fetches as far as a test lets it, and a job that serves what it fetches."""

from typing import Any

from llmgw.control.plane import Plane
from llmgw.model.catalog import Model, Profile, UrlSource
from llmgw.model.commands import ABSENT, FAILED, FETCHING, HELD, FetchWeights, WeightsState
from llmgw.model.jobs import Job
from llmgw.model.shard import Progress
from llmgw.plan.serving.advance import current
from tests.fakes.clock import settle
from tests.fakes.scripted_agent import FETCHES, FakeAgent

URL = UrlSource(url="https://example.org/tiny.gguf", sha256="a" * 64)
FETCHED = Model(name="tiny", source=URL, profiles=(Profile(engine="llamacpp", min_memory_gb=1.0),))


class Node(FakeAgent):
    """An agent that fetches as far as the test lets it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, features=FETCHES)
        self.how_far = self._how_far
        self.fetched = 0
        self.total = 100
        self.broken: str | None = None

    def _how_far(self, request: FetchWeights) -> WeightsState:
        if self.broken is not None:
            return WeightsState(state=FAILED, words=self.broken)
        if self.fetched >= self.total:
            return WeightsState(state=HELD, size_bytes=self.total)
        if request.check_only:
            return WeightsState(state=ABSENT)
        words = "downloading tiny.gguf"
        progress = Progress(words=words, done_bytes=self.fetched, total_bytes=self.total)
        return WeightsState(state=FETCHING, progress=progress)

    def asked_to_fetch(self) -> int:
        requests = self.requests(FetchWeights)
        return sum(1 for one in requests if isinstance(one, FetchWeights) and not one.check_only)


async def serve(plane: Plane, model: Model = FETCHED, version: int | None = None) -> Job:
    job = await plane.jobs.serve(model, version, actor="ana")
    for _ in range(4):  # a pass takes many turns: plan, check, fetch
        await settle()
    return job


def at(plane: Plane, job: Job) -> str | None:
    step = current(plane.jobs.get(job.id))
    return step.name if step is not None else None


def step(plane: Plane, job: Job, name: str) -> Any:
    return next(one for one in plane.jobs.get(job.id).steps if one.name == name)
