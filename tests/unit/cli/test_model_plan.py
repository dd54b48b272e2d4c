"""What a person reads of the planner's answer."""

import msgspec

from llmgw.cli.ctl.model_plan import lines
from llmgw.model.catalog import Model, UrlSource
from llmgw.model.node import WeightsHeld
from llmgw.model.shape import AttentionLayers, ModelShape
from llmgw.model.weights import cache_name
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
HELD = WeightsHeld(name=cache_name(URL), size_bytes=9 * GB, complete=True, shape=SHAPE)


def told(fleet: Fleet, wanted: Model) -> list[str]:
    answer = plan_model(wanted, fleet.desired(), fleet.observed(), fleet.now)
    return lines(msgspec.to_builtins(answer))


def on_gpu(name: str = "m", **profile) -> Model:
    return model(name, **{"source": URL, "engine": "llamacpp", "gpus": 1, "context": 1, **profile})


def test_a_model_that_rests_is_told_with_what_its_first_request_takes() -> None:
    fleet = Fleet()
    fleet.join(node("a", inventory={"weights": (HELD,)}), node("b", devices=1))
    head, when, start, need, rests, weights = told(fleet, on_gpu(replicas=0, max_replicas=2))
    assert head == "m: no replica until the first request comes, which starts 1 replica: b [gpu0]"
    assert when == "  when the first request comes:"
    assert start.startswith("    start default on b [gpu0]: 1 wanted (a request waits for it)")
    assert need.startswith("  default: 0 wanted, 0 there; about ")
    assert " on its device (" in need
    assert " x 1 token, to compute " in need
    assert rests.startswith("  default: its last replica goes when nothing was asked of it for 5m")
    assert weights == "  weights 9.0 GB, held by a; to fetch 9.0 GB"


def test_a_first_request_that_finds_no_place_is_told_with_every_node() -> None:
    fleet = Fleet()
    fleet.join(node("a"))
    found = told(fleet, model("m", gpus=1, replicas=0, max_replicas=1))
    assert found[1:4] == [
        "  when the first request comes:",
        "    default: can't be placed:",
        "      never: a: no GPU, needs 1 (has no devices)",
    ]


def test_what_always_runs_is_told_without_a_word_of_requests() -> None:
    fleet = Fleet()
    fleet.join(node("a", devices=2, inventory={"weights": (HELD,)}))
    found = told(fleet, on_gpu(gpus=2))
    assert not any("request" in line or "last replica" in line for line in found)
    assert any(" on each of 2 devices (" in line for line in found)


def test_the_answer_of_an_older_control_plane_is_told_too() -> None:
    fleet = Fleet()
    fleet.join(node("a", devices=1))
    body = msgspec.to_builtins(
        plan_model(model("m", gpus=1), fleet.desired(), fleet.observed(), fleet.now)
    )
    before = lines(body)
    del body["first_request"]
    for profile in body["profiles"]:
        del profile["rests"]
    assert lines(body) == before
