"""One serving job, driven step by step, and what it is shown, for tests of its steps."""

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st

from llmgw.model.catalog import CatalogEntry, Model, Profile, UrlSource
from llmgw.model.check import fingerprint
from llmgw.model.commands import ABSENT, CHECKING, FAILED, FETCHING, HELD, WeightsState
from llmgw.model.jobs import Job, ServeJob
from llmgw.model.replica import Replica
from llmgw.model.shard import Progress
from llmgw.plan.estimate import MemoryNeed
from llmgw.plan.modelplan import ModelPlan, PlannedReplica, PlannedShard, ProfilePlan
from llmgw.plan.records import Candidate, Refusal, StartFailure, Verdict
from llmgw.plan.serving.advance import advance, begin, current
from llmgw.plan.serving.records import CHECK, FETCH, STEPS, Answer, CannotFetch, Order, Seen, Silent

URL = UrlSource(url="https://example.org/tiny.gguf", sha256="a" * 64)
MODEL = Model(name="tiny", source=URL, profiles=(Profile(engine="llamacpp", replicas=2),))
OTHER = msgspec.structs.replace(MODEL, generation=9)
BOTH = ("n1", "n2")
PROFILE = ProfilePlan(profile="default", wanted=2, there=0, need=MemoryNeed())
CAN_BE_HAD = WeightsState(state=ABSENT)
HERE = WeightsState(state=HELD, size_bytes=10)


def a_plan(nodes: tuple[str, ...] = BOTH, *, warnings: tuple[str, ...] = ()) -> ModelPlan:
    starts = tuple(
        PlannedReplica(profile="default", shards=(PlannedShard(node=node),), words="")
        for node in nodes
    )
    profile = ProfilePlan(
        profile="default", wanted=2, there=0, need=MemoryNeed(), warnings=warnings
    )
    words = f"starts {len(nodes)} replicas"
    return ModelPlan(model="tiny", profiles=(profile,), starts=starts, fits=True, words=words)


def refused(*kinds: str) -> Refusal:
    candidates = tuple(
        Candidate(node=f"n{number}", verdict=Verdict(kind=kind, rule="memory", words="short"))
        for number, kind in enumerate(kinds, start=1)
    )
    words = "n1: 8 GB of memory, needs 24"
    return Refusal(model="tiny", profile="default", candidates=candidates, words=words)


def a_refusing_plan(*kinds: str) -> ModelPlan:
    profile = msgspec.structs.replace(PROFILE, refusal=refused(*kinds))
    return ModelPlan(model="tiny", profiles=(profile,), words="can't")


def entry(model: Model = MODEL, version: int = 1) -> CatalogEntry:
    return CatalogEntry(model=model, version=version, changed=0.0, changed_by="bo")


def replicas(*states: str | None, model: Model = MODEL) -> tuple[Replica, ...]:
    print_ = fingerprint(model, model.profiles[0])
    return tuple(
        Replica(id=f"tiny-{n}", model="tiny", profile="default", fingerprint=print_, state=state)
        for n, state in enumerate(states)
    )


def a_failure(count: int = 3) -> StartFailure:
    words = "CUDA error: out of memory"
    return StartFailure(model="tiny", node="n1", count=count, last=0.0, words=words)


class Going:
    """A job that is carried on step by step; each time from its stored copy too."""

    def __init__(
        self, model: Model = MODEL, version: int = 0, *, within: float | None = None
    ) -> None:
        spec = ServeJob(model=model, version=version, within=within)
        self.job = begin("j1", spec, actor="ana", now=0.0)
        self.now = 0.0
        self.before = entry(OTHER, version) if version else None

    def on(self, seen: Seen) -> tuple[Order, ...]:
        self.now += 1.0
        stored = msgspec.json.decode(msgspec.json.encode(self.job), type=Job)
        found = advance(self.job, seen, self.now)
        assert advance(stored, seen, self.now) == found
        self.job = found[0]
        return found[1]

    def answered(self, step: str, **answers: Answer) -> tuple[Order, ...]:
        return self.on(Seen(asked=step, answers=answers, entry=self.before))

    def step(self, name: str) -> Any:
        return next(step for step in self.job.steps if step.name == name)

    @property
    def at(self) -> str | None:
        step = current(self.job)
        return step.name if step is not None else None

    def to(self, step: str) -> "Going":
        """Go on to a step with all going well."""
        ways: tuple[Callable[[], object], ...] = (
            lambda: self.on(Seen(plan=a_plan(), entry=self.before)),
            lambda: self.answered(CHECK, n1=CAN_BE_HAD, n2=CAN_BE_HAD),
            lambda: self.answered(FETCH, n1=HERE, n2=HERE),
            lambda: self.on(Seen(entry=entry())),
            lambda: self.on(Seen(entry=entry(), replicas=replicas("starting", "starting"))),
        )
        for way in ways[: STEPS.index(step)]:
            way()
        assert self.at == step
        return self


def judged(**kinds: str) -> dict[str, tuple[Candidate, ...]]:
    return {
        "default": tuple(
            Candidate(node=node, verdict=Verdict(kind=kind, rule="x", words=f"{node}: 8 GB"))
            for node, kind in kinds.items()
        )
    }


# -- whatever happens ------------------------------------------------------------------------

states = st.sampled_from([HELD, ABSENT, CHECKING, FETCHING, FAILED, "of a later version"])
sizes = st.none() | st.integers(0, 100)
told = st.builds(Progress, words=st.just("downloading"), done_bytes=sizes, total_bytes=sizes)
answers = st.one_of(
    st.builds(WeightsState, state=states, size_bytes=sizes, progress=st.none() | told),
    st.builds(Silent, st.just("silent"), st.booleans()),
    st.just(CannotFetch("old")),
)
