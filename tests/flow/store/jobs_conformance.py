"""What every store must do with jobs."""

import msgspec
import pytest

from llmgw.base.errors import NotFound
from llmgw.model.jobs import (
    CANCELLED,
    DONE,
    FAILED,
    QUEUED,
    RUNNING,
    Job,
    JobProgress,
    JobStep,
    ServeJob,
)
from llmgw.store.interface import Store
from llmgw.store.rules.bounds import JOBS
from tests.flow.store import samples
from tests.flow.store.conformance import Place, refused


def job(number: int, state: str = QUEUED, *, changed: float | None = None, **more) -> Job:
    return Job(
        id=f"j{number:04}",
        subject="qwen",
        actor="ana",
        created=float(number),
        changed=float(number) if changed is None else changed,
        state=state,
        spec=ServeJob(model=samples.model()),
        **more,
    )


def ids(jobs: tuple[Job, ...]) -> list[str]:
    return [one.id for one in jobs]


class JobsConformance:
    async def test_a_job_is_read_back_as_it_was_with_steps_progress_and_spec(self, store: Store):
        assert await store.jobs() == ()
        steps = (
            JobStep(name="plan", state=DONE, reason="fits gpu-01"),
            JobStep(
                name="fetch", state=RUNNING, progress=JobProgress(words="2 of 3", done=0, total=3)
            ),
            JobStep(name="ready"),
        )
        whole = job(1, RUNNING, steps=steps)
        await store.put_job(whole)
        assert await store.jobs() == (whole,)
        assert await store.job("j0001") == whole
        assert whole.kind == "serve"

    async def test_a_job_goes_on_under_its_id_and_the_newest_come_first(self, store: Store):
        for number in (2, 1, 3):
            await store.put_job(job(number))
        over = msgspec.structs.replace(job(1), state=FAILED, changed=9.0, reason="no disk")
        await store.put_job(over)
        assert ids(await store.jobs()) == ["j0003", "j0002", "j0001"]
        assert await store.job("j0001") == over

    async def test_a_job_that_is_not_there_is_not_found(self, store: Store):
        assert "j0009" in await refused(store.job("j0009"), NotFound)

    async def test_who_asked_for_a_job_is_audited_once(self, store: Store):
        arguments = ("--api-key", "s3cret-value-of-nobody")
        spec = ServeJob(model=samples.model(arguments=arguments))
        begun = msgspec.structs.replace(job(1), spec=spec)
        await store.put_job(begun)
        await store.put_job(msgspec.structs.replace(begun, state=DONE, changed=5.0))
        (entry,) = await store.audit()
        assert (entry.actor, entry.action, entry.subject) == ("ana", "job.serve", "qwen")
        assert (entry.at, entry.before) == (1.0, None)
        assert "j0001" in (entry.after or "")
        assert "s3cret" not in repr(entry)
        assert await store.verify_audit() is None

    async def test_of_jobs_that_are_over_the_oldest_are_dropped_beyond_a_bound(self, store: Store):
        await store.put_job(job(0, RUNNING))
        await store.put_job(job(1, QUEUED))
        late = job(2, DONE, changed=1e6)
        await store.put_job(late)
        for number in range(3, JOBS + 5):
            await store.put_job(job(number, (DONE, FAILED, CANCELLED)[number % 3]))
        kept = ids(await store.jobs())
        assert len(kept) == JOBS + 2
        assert kept[-4:] == ["j0006", "j0002", "j0001", "j0000"]
        await refused(store.job("j0003"), NotFound)

    @pytest.mark.parametrize("name", ["job '1\"; DROP TABLE jobs", "jé\n"])
    async def test_any_id_is_kept_as_it_is(self, store: Store, name: str):
        await store.put_job(msgspec.structs.replace(job(1), id=name))
        assert (await store.job(name)).id == name

    async def test_jobs_outlive_the_store(self, place: Place):
        first = place.store()
        await first.open("a")
        await first.put_job(job(1, RUNNING))
        await first.close()
        again = place.store()
        await again.open("b")
        assert await again.jobs() == (job(1, RUNNING),)
        await again.close()
