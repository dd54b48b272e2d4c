"""What the fleet knows of weights."""

import msgspec

from llmgw.model.catalog import Model, PackageRef, PackageSource, PathSource, Profile
from llmgw.model.node import WeightsHeld
from llmgw.model.shape import ModelShape
from llmgw.plan.records import NodeRoom
from llmgw.plan.weights_known import Weights, WeightsKnown
from tests.unit.plan.fleet import node

PATH = Model(name="m", source=PathSource(path="/m"), profiles=(Profile(engine="llamacpp", gpus=2),))
SHAPE = ModelShape(format="gguf", weights_bytes=90)
PACKAGE = PackageSource(
    packages=(PackageRef(name="p", version="1", sha256="a" * 64),),
    parts=("p/a",),
    file="a.gguf",
    sha256="b" * 64,
    size_bytes=700,
)


def held(name: str, *sets: WeightsHeld) -> NodeRoom:
    return NodeRoom(node=node(name, inventory={"weights": sets}))


def test_each_fact_is_of_the_first_node_that_knows_it() -> None:
    known = WeightsKnown(
        [
            held("a", WeightsHeld(name="/m", size_bytes=100)),
            held("b", WeightsHeld(name="/m", shape=SHAPE), WeightsHeld(name="/n", size_bytes=5)),
        ]
    )
    assert known.of(PATH) == Weights(("a", "b"), 100, SHAPE)
    assert known.least_on_device(PATH, PATH.profiles[0]) == 45


def test_half_a_set_says_nothing() -> None:
    known = WeightsKnown([held("a", WeightsHeld(name="/m", size_bytes=100, complete=False))])
    assert known.of(PATH) == Weights()


def test_a_package_says_its_size_before_anybody_holds_it() -> None:
    model = msgspec.structs.replace(PATH, source=PACKAGE)
    assert WeightsKnown([]).of(model) == Weights((), 700, None)


def test_a_model_without_weights_needs_none() -> None:
    model = msgspec.structs.replace(PATH, source=None)
    assert WeightsKnown([]).of(model) == Weights()
    assert WeightsKnown([]).least_on_device(model, model.profiles[0]) is None
