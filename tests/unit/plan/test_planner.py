"""What serving a model would take, told before anything is changed."""

import msgspec
import pytest

from llmgw.local.demo_model import simulated
from llmgw.model.catalog import Model, PathSource, Profile, Scaling, UrlSource
from llmgw.model.node import Host, Node, WeightsHeld
from llmgw.model.shape import AttentionLayers, ModelShape
from llmgw.model.weights import cache_name
from llmgw.plan.modelplan import ModelPlan
from llmgw.plan.planner import plan_model
from tests.unit.plan.fleet import GB, Fleet, model, node

URL = UrlSource(url="https://example.org/qwen.gguf", sha256="a" * 64)
SHAPE = ModelShape(
    format="gguf",
    architecture="qwen2",
    weights_bytes=9 * GB,
    layers=48,
    embedding=5120,
    feed_forward=13824,
    vocabulary=152064,
    context=32768,
    attention=(AttentionLayers(layers=48, heads=8, key_length=128, value_length=128),),
)


def holds(name: str, shape: ModelShape | None = SHAPE) -> dict[str, object]:
    """Return what an inventory says of one set of weights."""
    held = WeightsHeld(name=name, size_bytes=9 * GB, complete=True, shape=shape)
    return {"weights": (held,)}


def plan(fleet: Fleet, wanted: Model) -> ModelPlan:
    before = (fleet.desired(), fleet.observed())
    answer = plan_model(wanted, *before, fleet.now)
    assert (fleet.desired(), fleet.observed()) == before
    return answer


def on(fleet: Fleet, *models: Model) -> Fleet:
    """Serve models and let all of them become ready."""
    for one in models:
        fleet.serve(one)
    fleet.apply(fleet.plan())
    fleet.all_ready()
    return fleet


def fleet(*nodes: Node) -> Fleet:
    made = Fleet()
    made.join(*nodes)
    return made


def test_it_says_which_node_and_devices_each_replica_takes() -> None:
    answer = plan(fleet(node("a", devices=4), node("b", devices=4)), model("m", gpus=2, replicas=2))
    assert answer.fits
    seats = [(one.shards[0].node, one.shards[0].devices) for one in answer.starts]
    assert sorted(seats) == [("a", ("gpu0", "gpu1")), ("b", ("gpu0", "gpu1"))]
    assert answer.words == "starts 2 replicas: a [gpu0 gpu1], b [gpu0 gpu1]"
    assert all("scores best" in one.words for one in answer.starts)


def test_on_a_stopped_cluster_it_says_what_would_be_started_once_it_serves_again() -> None:
    made = on(fleet(node("a", devices=2), node("b", devices=2)), model("old", gpus=2))
    running = plan(made, model("m", gpus=2))
    made.stop_cluster()
    answer = plan(made, model("m", gpus=2))
    assert answer.words == (
        "the cluster is stopped, and once `llmgw start` lets it serve: starts 1 replica: "
        "b [gpu0 gpu1]"
    )
    assert (answer.starts, answer.fits) == (running.starts, True)
    again = plan(made, model("old", gpus=2))
    assert [one.shards[0].node for one in again.starts] == ["a"], "all of it is started anew"
    full = plan(made, model("m", gpus=2, replicas=2))
    assert not full.fits, "what is stopped comes back too, and takes its place"
    assert "can't place" in full.words


def test_what_is_short_is_said_of_every_node() -> None:
    answer = plan(fleet(node("a", devices=1), node("b", devices=1)), model("m", gpus=2))
    assert not answer.fits
    (only,) = answer.profiles
    assert only.refusal is not None
    assert {one.node for one in only.refusal.candidates} == {"a", "b"}
    assert "needs 2" in answer.words


def test_some_of_several_replicas_may_fit() -> None:
    answer = plan(fleet(node("a", devices=1)), model("m", gpus=1, replicas=3))
    assert len(answer.starts) == 1
    assert not answer.fits
    assert answer.words.startswith("starts 1 replica: a [gpu0]; can't place default: ")


def test_what_serves_it_already_stays_and_is_counted() -> None:
    there = on(fleet(node("a", devices=4)), model("m", gpus=1, replicas=1))
    answer = plan(there, model("m", gpus=1, replicas=3))
    assert [(one.wanted, one.there) for one in answer.profiles] == [(3, 1)]
    assert len(answer.starts) == 2
    assert answer.gives_up == ()


def test_what_failed_is_not_counted_among_what_is_there() -> None:
    there = on(fleet(node("a", devices=2)), model("m", gpus=1, replicas=2))
    there.state("m-000001", "failed", "it ended")
    (profile,) = plan(there, model("m", gpus=1, replicas=2)).profiles
    assert profile.there == 2, "its successor is started anyway"


def test_a_model_without_weights_says_so() -> None:
    (profile,) = plan(fleet(node("a", devices=1)), simulated()).profiles
    assert (profile.need.total_bytes, profile.need.unknown) == (None, ("it has no weights",))


def test_the_same_model_again_changes_nothing() -> None:
    there = on(fleet(node("a", devices=4)), model("m", gpus=1, replicas=2))
    answer = plan(there, model("m", gpus=1, replicas=2))
    assert (answer.starts, answer.gives_up, answer.fits) == ((), (), True)
    assert answer.words == "changes nothing that runs"


def test_another_context_rolls_what_runs() -> None:
    there = on(fleet(node("a", devices=4)), model("m", gpus=1, context=1024))
    answer = plan(there, model("m", gpus=1, context=2048))
    assert [one.replica for one in answer.gives_up] == ["m-000001"]
    assert len(answer.starts) == 1
    assert answer.profiles[0].there == 0


def test_fewer_replicas_give_up_the_rest() -> None:
    there = on(fleet(node("a", devices=4)), model("m", gpus=1, replicas=3))
    answer = plan(there, model("m", gpus=1, replicas=1))
    assert len(answer.gives_up) == 2
    assert answer.profiles[0].there == 1


def test_what_the_fleet_does_anyway_is_not_the_models_doing() -> None:
    there = fleet(node("a", devices=4))
    there.serve(model("other", gpus=1))
    answer = plan(there, model("m", gpus=1))
    assert [one.shards[0].devices for one in answer.starts] == [("gpu1",)]
    assert answer.gives_up == ()


def test_what_is_starting_and_what_is_leaving_is_taken_as_done() -> None:
    there = fleet(node("a", devices=2))
    there.serve(model("old", gpus=1))
    there.apply(there.plan())
    assert len(plan(there, model("m", gpus=1)).starts) == 1
    there.all_ready()
    there.withdraw("old")
    there.apply(there.plan())
    assert plan(there, model("m", gpus=2)).fits


def test_what_is_wrong_as_it_is_written_is_said_first() -> None:
    answer = plan(fleet(node("a")), model("m", engine="nope"))
    assert "profiles[0].engine" in [one.path for one in answer.problems]
    assert (answer.starts, answer.fits) == ((), False)


def test_weights_are_fetched_once_by_each_node_that_lacks_them() -> None:
    held = holds(cache_name(URL))
    nodes = (node("a", devices=2, inventory=held), node("b", devices=2), node("c", devices=2))
    answer = plan(fleet(*nodes), model("m", source=URL, engine="llamacpp", gpus=1, replicas=6))
    assert answer.weights_on == ("a",)
    assert answer.download_bytes == 2 * 9 * GB
    by_node = {s.node: s.download_bytes for one in answer.starts for s in one.shards}
    assert by_node == {"a": 0, "b": 9 * GB, "c": 9 * GB}


def test_a_download_of_unknown_size_is_not_known() -> None:
    answer = plan(fleet(node("a", devices=1)), model("m", source=URL, engine="llamacpp", gpus=1))
    assert answer.starts
    assert answer.download_bytes is None
    assert answer.profiles[0].need.total_bytes is None
    assert answer.profiles[0].need.unknown


def test_a_path_on_the_node_is_not_fetched() -> None:
    held = holds("/srv/qwen.gguf")
    one = model("m", source=PathSource(path="/srv/qwen.gguf"), engine="llamacpp", gpus=1)
    answer = plan(fleet(node("a", devices=1, inventory=held)), one)
    assert answer.download_bytes == 0
    assert answer.profiles[0].need.total_bytes is not None


def test_memory_is_told_from_the_header_that_a_node_read() -> None:
    there = fleet(node("a", devices=2, inventory=holds(cache_name(URL))))
    one = model("m", source=URL, engine="llamacpp", gpus=1, context=8192, concurrency=4)
    need = plan(there, one).profiles[0].need
    assert need.weights_bytes == 9 * GB
    # 48 layers of 8 heads, 128 numbers of a key and of a value, 2 bytes each, 4 x 8192 tokens.
    assert need.cache_bytes == 48 * 8 * 256 * 2 * 4 * 8192
    assert need.per_device_bytes == need.total_bytes


def slow_node(bandwidth: float) -> Node:
    host = Host(memory_bytes=64 * GB, cpus=16, mem_bandwidth_gbs=bandwidth)
    return node("a", inventory={"host": host, **holds(cache_name(URL))})


def test_the_cpu_is_timed_and_a_slow_one_is_said() -> None:
    one = model("m", source=URL, engine="llamacpp", min_memory_gb=12.0)
    # 9 GB a token at 0.68 x 41.9 GB/s, and 5 ms: 3.2 tokens/s (WGT-10's second point is 8.8 GB).
    slow = plan(fleet(slow_node(41.9)), one)
    assert slow.starts[0].shards[0].tokens_per_second == pytest.approx(3.12, abs=0.02)
    assert any("3.1 tokens/s on the CPU" in words for words in slow.profiles[0].warnings)
    fast = plan(fleet(slow_node(400.0)), one)
    assert not any("tokens/s" in words for words in fast.profiles[0].warnings)


def test_a_reserve_that_is_too_small_and_a_context_that_is_too_long_are_said() -> None:
    one = model("m", source=URL, engine="llamacpp", min_memory_gb=2.0, context=65536)
    warnings = plan(fleet(slow_node(400.0)), one).profiles[0].warnings
    assert any("min_memory_gb reserves 2 GB" in words for words in warnings)
    assert any("it was trained for 32768" in words for words in warnings)


def test_every_profile_is_answered() -> None:
    two = Model(
        name="m",
        profiles=(
            Profile(name="big", engine="simulated", gpus=8),
            Profile(name="small", engine="simulated", gpus=1),
        ),
    )
    answer = plan(fleet(node("a", devices=2)), two)
    assert [(one.profile, one.refusal is None) for one in answer.profiles] == [
        ("big", False),
        ("small", True),
    ]
    assert not answer.fits


def test_a_lower_priority_that_has_to_go_is_named() -> None:
    there = on(fleet(node("a", devices=1)), model("low", gpus=1, priority=0))
    answer = plan(there, model("high", gpus=1, priority=10))
    assert [(one.model, one.replica) for one in answer.gives_up] == [("low", "low-000001")]
    assert answer.fits


def test_the_answer_is_json() -> None:
    there = on(fleet(node("a", devices=1)), model("low", gpus=1))
    answer = plan(there, model("m", gpus=1))
    assert msgspec.json.decode(msgspec.json.encode(answer), type=ModelPlan) == answer


def test_a_card_that_is_too_small_for_its_weights_is_refused_with_both_numbers() -> None:
    """The header of weights that some node holds counts on every node."""
    held = holds(cache_name(URL))
    small = tuple(
        msgspec.structs.replace(one, memory_bytes=8 * GB)
        for one in node("b", devices=1).inventory.devices or ()
    )
    there = fleet(node("a", inventory=held), node("b", devices=small))
    one = model("m", source=URL, engine="llamacpp", gpus=1)
    refusal = plan(there, one).profiles[0].refusal
    assert refusal is not None
    (words,) = [c.verdict.words for c in refusal.candidates if c.node == "b"]
    assert "8 GB" in words
    assert "needs 9" in words
    assert plan(fleet(node("a", inventory=held), node("b", devices=1)), one).fits


def rests(**more) -> Model:
    return model("m", **{"gpus": 1, "replicas": 0, "max_replicas": 2, **more})


def test_a_model_that_a_request_starts_says_so_and_what_that_takes() -> None:
    answer = plan(fleet(node("a", devices=1)), rests())
    assert (answer.fits, answer.starts, answer.gives_up) == (True, (), ())
    assert answer.words == (
        "no replica until the first request comes, which starts 1 replica: a [gpu0]"
    )
    request = answer.first_request
    assert request is not None
    assert [one.shards[0].devices for one in request.starts] == [("gpu0",)]
    assert "a request waits for it" in request.starts[0].words
    (profile,) = answer.profiles
    assert (profile.wanted, profile.there) == (0, 0)
    assert profile.rests == (
        "its last replica goes when nothing was asked of it for 5m00s (scaling.down_window; "
        "scaling.idle_stop says another time), and a request starts 1 replica"
    )


def test_what_the_first_request_needs_is_what_it_would_take_then() -> None:
    there = on(fleet(node("a", devices=1)), model("low", gpus=1, priority=0))
    answer = plan(there, rests(priority=10, source=URL, engine="llamacpp"))
    request = answer.first_request
    assert request is not None
    assert [one.model for one in request.gives_up] == ["low"]
    assert (request.download_bytes, answer.gives_up, answer.download_bytes) == (None, (), 0)
    held = {"weights": holds(cache_name(URL))["weights"]}
    there = fleet(node("a", inventory=held), node("b", devices=1))
    request = plan(there, rests(source=URL, engine="llamacpp")).first_request
    assert request is not None
    assert request.download_bytes == 9 * GB


def test_a_first_request_that_finds_no_place_is_told_before_it_comes() -> None:
    answer = plan(fleet(node("a")), rests())
    assert not answer.fits
    assert answer.words == (
        "no replica until a request comes, and then: "
        "can't place default: a: no GPU, needs 1 (has no devices)"
    )
    assert answer.profiles[0].refusal is None, "none is wanted now"


def test_the_first_request_starts_the_first_profile_that_fits() -> None:
    gpu, cpu = (
        Profile(name=name, engine="simulated", gpus=gpus, replicas=0, max_replicas=1)
        for name, gpus in (("gpu", 1), ("cpu", 0))
    )
    answer = plan(fleet(node("a")), Model(name="m", profiles=(gpu, cpu)))
    request = answer.first_request
    assert request is not None
    assert [one.profile for one in request.starts] == ["cpu"]
    assert [one.profile for one in request.refusals] == ["gpu"]
    assert answer.fits


def test_what_runs_on_demand_stays_and_what_rests_is_not_started_by_a_plan() -> None:
    stops = model("m", gpus=1, scaling=Scaling(idle_stop=600))
    for one in (rests(), stops):
        there = fleet(node("a", devices=1))
        there.serve(one)
        there.turn()
        there.waiting("m", 1)
        there.turn()
        there.all_ready()
        there.waiting("m", 0)
        there.turn()
        assert plan(there, one).words == "changes nothing that runs"
        there.wait(1000)
        there.turn()
        there.all_stopped()
        answer = plan(there, one)
        assert (answer.starts, answer.first_request is not None) == ((), True)


def test_fewer_wanted_until_a_request_comes_keep_the_last_until_it_is_idle() -> None:
    there = on(fleet(node("a", devices=4)), model("m", gpus=1, replicas=3))
    answer = plan(there, rests())
    assert (len(answer.gives_up), answer.profiles[0].there, answer.first_request) == (1, 2, None)


def test_a_model_that_nothing_starts_says_so() -> None:
    answer = plan(fleet(node("a", devices=1)), rests(max_replicas=None))
    assert answer.words == "no replica of it is wanted, and no request starts one"
    assert answer.profiles[0].rests == (
        "it has no replica, and no request starts one: max_replicas allows it"
    )
    there = on(fleet(node("a", devices=1)), model("m", gpus=1))
    answer = plan(there, rests(max_replicas=None))
    assert answer.words == ("gives up m-000001 (no replica of it is wanted); no request starts one")


def test_of_a_model_that_always_runs_no_request_is_spoken() -> None:
    answer = plan(fleet(node("a", devices=1)), model("m", gpus=1))
    assert (answer.first_request, answer.profiles[0].rests) == (None, "")
