"""What the fleet knows of weights: where they are held, their size, what they are made of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from llmgw.model.catalog import Model, PackageSource, Profile
from llmgw.model.shape import ModelShape
from llmgw.model.weights import held_as
from llmgw.plan.estimate import least_on_device
from llmgw.plan.records import NodeRoom


@dataclass(frozen=True, slots=True)
class Weights:
    """One set of weights, as the nodes that hold it say."""

    nodes: tuple[str, ...] = ()
    size_bytes: int | None = None
    shape: ModelShape | None = None


class WeightsKnown:
    """All sets that are held anywhere, by their name on a node; looked through once a plan."""

    def __init__(self, rooms: Iterable[NodeRoom]) -> None:
        nodes: dict[str, list[str]] = {}
        sizes: dict[str, int] = {}
        shapes: dict[str, ModelShape] = {}
        for room in rooms:
            for held in room.node.inventory.weights or ():
                if held.complete is False:
                    continue
                nodes.setdefault(held.name, []).append(room.node.id)
                if held.size_bytes is not None:
                    sizes.setdefault(held.name, held.size_bytes)
                if held.shape is not None:
                    shapes.setdefault(held.name, held.shape)
        self._known: Mapping[str, Weights] = {
            name: Weights(tuple(where), sizes.get(name), shapes.get(name))
            for name, where in nodes.items()
        }

    def of(self, model: Model) -> Weights:
        """Return what is known of a model's weights."""
        source = model.source
        if source is None:
            return Weights()
        known = self._known.get(held_as(source), Weights())
        if known.size_bytes is None and isinstance(source, PackageSource):
            return Weights(known.nodes, source.size_bytes, known.shape)
        return known

    def least_on_device(self, model: Model, profile: Profile) -> int | None:
        """Return the bytes of a device without which a replica can't start; None: not known."""
        known = self.of(model)
        return least_on_device(known.shape, profile, known.size_bytes)
