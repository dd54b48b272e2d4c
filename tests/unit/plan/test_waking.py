"""Which of several profiles a request starts, and what is said when none can be."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.model.catalog import Model, Profile, Scaling
from llmgw.model.device import DeviceSample, ForeignProcess
from llmgw.model.gateway import Route
from llmgw.model.shard import FAILED, STOPPED
from llmgw.plan.drain import LEAST
from llmgw.plan.placement.place import Placement, place
from llmgw.plan.placement.request import request
from llmgw.plan.placement.room import Room
from llmgw.plan.records import Plan, StartReplica
from llmgw.plan.routes import routes
from llmgw.plan.scaling import wants
from llmgw.plan.waking import PATIENCE
from tests.unit.plan.fleet import Fleet, gpu, model, node

GPU = Profile(name="gpu", engine="simulated", gpus=1, replicas=0, max_replicas=1)
CPU = Profile(name="cpu", engine="simulated", replicas=0, max_replicas=1)
BOTH = Model(name="m", profiles=(GPU, CPU))


def on(fleet: Fleet, *profiles: Profile) -> Fleet:
    fleet.serve(Model(name="m", profiles=profiles))
    fleet.turn()
    return fleet


def started(plan: Plan) -> list[str]:
    return [step.profile for step in plan.steps if isinstance(step, StartReplica)]


def wanted(fleet: Fleet) -> dict[str, int]:
    return {profile: one.wanted for (_, profile), one in fleet.scales.items()}


def route(fleet: Fleet, plan: Plan) -> Route:
    (found,) = routes(
        fleet.replicas.values(),
        fleet.nodes.values(),
        fleet.desired().models,
        fleet.settings,
        key=lambda replica: None,
        refusals=plan.refusals,
        wants=wants(fleet.scales),
    )
    return found


def foreign(fleet: Fleet, name: str) -> None:
    """Let somebody's process take the first card of a node."""
    worker = (ForeignProcess(pid=4711, command="python"),)
    fleet.readings[name] = (DeviceSample(uuid=f"GPU-{name}-0", foreign=worker),)


def test_the_first_profile_is_started_where_it_fits():
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    on(fleet, GPU, CPU).waiting("m", 1)
    assert started(fleet.turn()) == ["gpu"]
    assert wanted(fleet) == {"gpu": 1, "cpu": 0}


def test_the_next_is_started_in_the_same_pass_where_the_first_does_not_fit():
    fleet = Fleet()
    fleet.join(node("n1"))
    on(fleet, GPU, CPU).waiting("m", 3)
    plan = fleet.turn()
    assert (started(plan), plan.refusals) == (["cpu"], ())
    found = route(fleet, plan)
    assert found.holds
    assert found.reason == "starting: m-000001 is starting on n1"
    fleet.join(node("n2", devices=1))
    for _ in range(10):
        assert started(fleet.turn()) == []
        assert wanted(fleet) == {"gpu": 0, "cpu": 1}


def test_the_first_is_preferred_again_once_it_fits_and_nothing_runs():
    fleet = Fleet()
    fleet.join(node("n1"))
    on(fleet, GPU, CPU).waiting("m", 1)
    fleet.turn()
    fleet.all_ready()
    fleet.waiting("m", 0)
    fleet.join(node("n2", devices=1))
    fleet.wait(100)
    assert started(fleet.turn()) == []
    assert wanted(fleet) == {"gpu": 0, "cpu": 1}
    fleet.wait(300)
    fleet.turn()
    fleet.all_stopped()
    assert wanted(fleet) == {"gpu": 0, "cpu": 0}
    fleet.waiting("m", 1)
    assert started(fleet.turn()) == ["gpu"]


def test_why_none_fits_is_said_of_each_and_nothing_is_held_for_them():
    fleet = Fleet()
    fleet.join(node("n1"))
    big = msgspec.structs.replace(CPU, name="big", min_memory_gb=500)
    on(fleet, GPU, big).waiting("m", 3)
    plan = fleet.turn()
    found = route(fleet, plan)
    assert not found.holds
    assert found.reason == (
        "can't be placed: gpu: n1: no GPU, needs 1 (has no devices); "
        "big: n1: 64 GB of memory, needs 500"
    )
    assert [refusal.profile for refusal in plan.refusals] == ["gpu"]


def test_what_none_fits_stays_as_it_is_from_pass_to_pass_and_starts_when_one_does():
    fleet = Fleet()
    fleet.join(node("n1"))
    two = msgspec.structs.replace(GPU, name="two", gpus=2)
    on(fleet, two, GPU).waiting("m", 3)
    first = fleet.turn()
    fleet.waiting("m", 0)
    seen = {(fleet.turn().sentence, route(fleet, first).reason) for _ in range(30)}
    assert seen == {(first.sentence, route(fleet, first).reason)}
    fleet.join(node("n2", devices=1))
    assert started(fleet.turn()) == ["gpu"]


def test_both_fit_at_once_and_one_is_started():
    fleet = Fleet()
    on(fleet, GPU, CPU).waiting("m", 1)
    assert not route(fleet, fleet.turn()).holds
    fleet.join(node("n1", devices=1))
    assert started(fleet.turn()) == ["gpu"]


def test_what_was_refused_is_let_rest_when_nobody_asks_any_more():
    fleet = Fleet()
    on(fleet, GPU, CPU).waiting("m", 1)
    fleet.turn()
    fleet.waiting("m", 0)
    fleet.wait(299)
    assert len(fleet.turn().refusals) == 1
    fleet.wait(1)
    plan = fleet.turn()
    assert (plan.refusals, wanted(fleet)) == ((), {"gpu": 0, "cpu": 0})
    found = route(fleet, plan)
    assert (found.holds, found.reason) == (
        True,
        "nothing was asked of it for 5m00s: a request starts it",
    )


@pytest.mark.parametrize("held", [True, False])
def test_a_place_that_may_become_free_is_waited_for_a_while(held: bool):
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    foreign(fleet, "n1")
    on(fleet, GPU, CPU).waiting("m", 1)
    plan = fleet.turn()
    assert (started(plan), route(fleet, plan).holds) == ([], True)
    assert (route(fleet, plan).reason or "").startswith("can't be placed: gpu: n1: ")
    fleet.waiting("m", int(held))
    fleet.wait(PATIENCE - 1)
    assert started(fleet.turn()) == []
    fleet.wait(1)
    assert started(fleet.turn()) == ["cpu"]


def test_a_place_that_becomes_free_meanwhile_is_taken():
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    foreign(fleet, "n1")
    on(fleet, GPU, CPU).waiting("m", 1)
    fleet.turn()
    fleet.readings.clear()
    fleet.wait(10)
    assert started(fleet.turn()) == ["gpu"]


def test_its_own_last_replica_that_still_drains_is_waited_for():
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    on(fleet, GPU, CPU).waiting("m", 1)
    fleet.turn()
    fleet.all_ready()
    fleet.waiting("m", 0)
    fleet.turn()
    fleet.wait(300)
    fleet.turn()
    fleet.wait(LEAST)
    fleet.turn()
    assert fleet.told_to_stop == {"m-000001"}
    fleet.waiting("m", 1)
    plan = fleet.turn()
    assert (started(plan), route(fleet, plan).holds) == ([], True)
    fleet.state("m-000001", STOPPED)
    assert started(fleet.turn()) == ["gpu"]


def test_a_first_profile_that_the_catalog_wants_gives_the_request_to_the_next():
    fleet = Fleet()
    fleet.join(node("n1"))
    always = msgspec.structs.replace(GPU, replicas=1)
    on(fleet, always, CPU).waiting("m", 1)
    plan = fleet.turn()
    assert started(plan) == ["cpu"]
    assert [refusal.profile for refusal in plan.refusals] == ["gpu"]
    fleet.waiting("m", 0)
    for _ in range(5):
        assert started(fleet.turn()) == []


def test_what_a_request_starts_is_tried_on_beside_what_the_catalog_wants():
    fleet = Fleet()
    fleet.join(node("n1", memory_gb=1))
    always = msgspec.structs.replace(GPU, replicas=1)
    on(fleet, always, msgspec.structs.replace(CPU, min_memory_gb=8)).waiting("m", 1)
    plan = fleet.turn()
    assert [refusal.profile for refusal in plan.refusals] == ["cpu", "gpu"]
    assert not route(fleet, plan).holds
    fleet.waiting("m", 0)
    fleet.turn()
    fleet.join(node("n2"))
    assert started(fleet.turn()) == ["cpu"]


def test_of_several_that_do_not_fit_the_one_is_waited_for_that_may():
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    foreign(fleet, "n1")
    two = msgspec.structs.replace(GPU, name="two", gpus=2)
    on(fleet, two, GPU).waiting("m", 1)
    fleet.turn()
    fleet.wait(PATIENCE)
    plan = fleet.turn()
    assert [refusal.profile for refusal in plan.refusals] == ["gpu"]
    assert route(fleet, plan).holds
    assert wanted(fleet) == {"two": 0, "gpu": 1}


def test_a_start_that_failed_is_not_waited_for():
    fleet = Fleet()
    fleet.join(node("n1", devices=1), node("n2"))
    cpu = msgspec.structs.replace(CPU, node_selector={"kind": "cpu"})
    fleet.change("n2", labels={"kind": "cpu"})
    on(fleet, GPU, cpu).waiting("m", 1)
    assert started(fleet.turn()) == ["gpu"]
    fleet.state("m-000001", FAILED, "out of memory")
    assert started(fleet.turn()) == ["cpu"]
    assert wanted(fleet) == {"gpu": 0, "cpu": 1}


def test_others_give_way_to_the_first_before_the_next_is_tried():
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    fleet.serve(model("low", gpus=1, priority=-1))
    fleet.turn()
    fleet.all_ready()
    on(fleet, GPU, CPU).waiting("m", 1)
    assert [type(step).__name__ for step in fleet.turn().steps] == ["EvictReplica"]
    fleet.all_stopped()
    assert started(fleet.turn()) == ["gpu"]


def test_a_profile_that_the_catalog_has_just_wanted_is_not_taken_back():
    fleet = Fleet()
    fleet.join(node("n1"))
    fresh = msgspec.structs.replace(GPU, replicas=1, scaling=Scaling(idle_stop=600))
    fleet.serve(Model(name="m", profiles=(fresh, CPU)))
    assert [refusal.profile for refusal in fleet.turn().refusals] == ["gpu"]
    fleet.waiting("m", 1)
    plan = fleet.turn()
    assert started(plan) == ["cpu"]
    assert [refusal.profile for refusal in plan.refusals] == ["gpu"]


def test_several_models_are_woken_in_one_pass():
    fleet = Fleet()
    fleet.join(node("n1", devices=1))
    for name in ("a", "b"):
        fleet.serve(Model(name=name, profiles=(GPU, CPU)))
    fleet.turn()
    fleet.waiting("a", 1)
    fleet.waiting("b", 1)
    plan = fleet.turn()
    steps = [step for step in plan.steps if isinstance(step, StartReplica)]
    assert {(step.model, step.profile) for step in steps} == {("a", "gpu"), ("b", "cpu")}


profiles = st.lists(
    st.builds(
        Profile,
        engine=st.just("simulated"),
        gpus=st.integers(0, 3),
        min_memory_gb=st.sampled_from((None, 10, 40, 500)),
        replicas=st.just(0),
        max_replicas=st.sampled_from((None, 1, 2)),
    ),
    min_size=1,
    max_size=4,
).map(
    lambda found: tuple(msgspec.structs.replace(one, name=f"p{n}") for n, one in enumerate(found))
)
nodes = st.lists(st.tuples(st.integers(0, 3), st.sampled_from((8, 32, 64))), max_size=3)


@given(profiles, nodes, st.booleans())
def test_the_first_that_fits_is_started_and_never_a_second(
    found: tuple[Profile, ...], there: list[tuple[int, int]], still: bool
):
    fleet = Fleet()
    for number, (devices, memory) in enumerate(there):
        name = f"n{number}"
        cards = tuple(gpu(name, one) for one in range(devices))
        fleet.join(node(name, devices=cards, memory_gb=memory))
    on(fleet, *found).waiting("m", 1)
    one = fleet.models["m"]
    room = Room(fleet.observed())
    fits = [
        profile.name
        for profile in found
        if profile.max_replicas and isinstance(place(request(one, profile), room), Placement)
    ]
    plan = fleet.turn()
    assert started(plan) == fits[:1]
    told = route(fleet, plan)
    may = [profile for profile in found if profile.max_replicas]
    assert told.holds == bool(fits)
    if may and not fits and len(may) > 1:
        assert all(f"{profile.name}: " in (told.reason or "") for profile in may)
    fleet.waiting("m", int(still))
    before = wanted(fleet)
    for _ in range(5):
        fleet.wait(10)
        assert started(fleet.turn()) == []
        assert wanted(fleet) == before
