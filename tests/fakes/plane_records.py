"""What a `FakePlane` has decided and remembers: a plan, jobs, a change of hardware, a route."""

from llmgw.model.catalog import Model, Profile, UrlSource
from llmgw.model.gateway import Endpoint, Route
from llmgw.model.hardware import HardwareChange
from llmgw.model.jobs import Job, JobPart, JobProgress, JobStep, ServeJob
from llmgw.plan.records import Candidate, Plan, Refusal, StopReplica, Verdict
from tests.fakes.fleet_parts import NOW

ENGINE_KEY = "engine-key-that-never-leaves"


def a_hardware_change() -> HardwareChange:
    return HardwareChange(
        id=f"{int(NOW * 1e6) - 1:017d}",
        at=NOW - 120,
        until=NOW - 90,
        node="atlas",
        kind="xid",
        subject="GPU-3/79",
        times=2,
        total=2,
        reading=2,
        words="gpu3: XID 79 (fell off the bus) 2 times: reboot the machine",
    )


def a_candidate(node: str) -> Candidate:
    verdict = Verdict(kind="never", rule="memory", words=f"{node}: 8 GB of memory, needs 24")
    return Candidate(node=node, verdict=verdict)


def a_plan() -> Plan:
    refusal = Refusal(
        model="qwen3-32b",
        profile="default",
        candidates=(a_candidate("atlas"), a_candidate("borea")),
        words="atlas: 8 GB of memory, needs 24; borea: 8 GB of memory, needs 24",
    )
    stop = StopReplica(replica="old-000001", shards=(("atlas", 0),), words="left the catalog")
    sentence = "stops old-000001: left the catalog"
    return Plan(number=12, parent=11, steps=(stop,), refusals=(refusal,), sentence=sentence)


def some_jobs() -> tuple[Job, ...]:
    """Return a job that fetches, and one that failed."""
    source = UrlSource(url="https://example.org/qwen3-0.6b.gguf", sha256="5e" * 32)
    profiles = (Profile(engine="llamacpp", min_memory_gb=2.0),)
    fetching = JobProgress(words="downloading qwen3-0.6b.gguf", done=16_000_000, total=253_000_000)
    running = Job(
        id="job-0000m1",
        subject="qwen3-0.6b",
        actor="anna",
        created=NOW - 60,
        changed=NOW - 1,
        state="running",
        steps=(
            JobStep(name="plan", state="done", parts=(JobPart(name="atlas", state="done"),)),
            JobStep(name="check source", state="done"),
            JobStep(
                name="fetch",
                state="running",
                progress=fetching,
                parts=(JobPart(name="atlas", state="running", progress=fetching),),
            ),
            *(JobStep(name=name) for name in ("catalog", "place", "ready")),
        ),
        spec=ServeJob(model=Model(name="qwen3-0.6b", source=source, profiles=profiles)),
    )
    words = "atlas: 8 GB of memory, needs 24"
    failed = Job(
        id="job-0000m2",
        subject="qwen3-32b",
        actor="ben",
        created=NOW - 600,
        changed=NOW - 590,
        state="failed",
        reason=words,
        steps=(JobStep(name="plan", state="failed", reason=words),),
        spec=ServeJob(model=Model(name="qwen3-32b", source=source, profiles=profiles)),
    )
    return running, failed


def keyed_route(model: str, replica: str) -> Route:
    endpoint = Endpoint(
        replica=replica,
        node="atlas",
        host="127.0.0.1",
        port=7500,
        key=ENGINE_KEY,
        engine="llamacpp",
    )
    return Route(model=model, wanted=1, endpoints=(endpoint,))
