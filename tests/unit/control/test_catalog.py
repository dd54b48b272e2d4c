"""What is new in the catalog has to be sound; what an earlier release wrote goes on (PLC-1, -5)."""

import msgspec
import pytest

from llmgw.control.plane import Plane
from llmgw.model.catalog import Model
from llmgw.model.faulty import Faulty
from llmgw.model.shard import READY
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import cpu_model, make_plane, running
from tests.fakes.scripted_agent import FakeAgent


def without_memory(model: Model) -> Model:
    """Return a model on the CPU that does not say how much memory it needs."""
    profiles = (msgspec.structs.replace(one, min_memory_gb=None) for one in model.profiles)
    return msgspec.structs.replace(model, profiles=tuple(profiles))


async def test_a_stored_model_without_memory_is_served_and_can_only_be_changed_with_it(
    clock: FakeClock,
) -> None:
    store = MemoryStore()
    old = without_memory(cpu_model("old"))
    await store.put_model(old, expected=0, actor="an earlier release", at=clock.now())
    plane: Plane = make_plane(clock, store)
    async with running(plane):
        await FakeAgent("n1").connect(plane.agents)
        await settle()
        assert [(one.model, one.state) for one in plane.fleet.replicas()] == [("old", READY)]
        for model in (
            without_memory(cpu_model("new")),
            without_memory(cpu_model("old", context=9)),
        ):
            with pytest.raises(Faulty) as caught:
                await plane.catalog.put(without_memory(model), None, actor="ana")
            assert [one.path for one in caught.value.problems] == ["profiles[0].min_memory_gb"]
        await plane.catalog.put(cpu_model("old"), 1, actor="ana")
    assert [(one.version, one.changed_by) for one in await store.model_history("old", 9)] == [
        (2, "ana"),
        (1, "an earlier release"),
    ]
