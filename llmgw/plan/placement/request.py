"""What is to be placed: one more replica of a model under a profile."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from llmgw.model.catalog import Model, PackageSource, Profile
from llmgw.model.weights import held_as
from llmgw.plan.records import Verdict

_GB = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """One more replica, with what it needs of each node worked out. Make it with `request`.

    Bytes, and `None` for what it does not ask for.
    """

    model: Model
    profile: Profile
    memory_bytes: int | None
    """Host memory that the node must have free."""
    disk_bytes: int | None
    """Space for its weights where they are not held yet."""
    weights: str | None
    """What its weights are called on a node that holds them; None: it needs none."""
    ordered: bool
    """The settings order its engine on every node."""
    held_back: Mapping[str, Verdict] = field(default_factory=dict)
    """Nodes that are turned away beforehand, after failed starts there."""
    device_memory_bytes: int | None = None
    """Memory that it is expected to need on each of its devices."""
    more: int = 0
    """How many more of several nodes are to be placed after it: it leaves them their groups."""
    among: str | None = None
    """A node that has to be in its group; None: any."""

    @property
    def reserved_bytes(self) -> int | None:
        """Return the host memory that is booked for it: only a replica on the CPU books any."""
        return self.memory_bytes if self.profile.gpus == 0 else None

    def shape(self) -> tuple[object, ...]:
        """Return all that makes two requests alike on a node that knows neither model yet."""
        profile = self.profile
        return (
            profile.engine,
            profile.engine_version,
            profile.device_classes,
            profile.gpus,
            profile.nodes,
            profile.fabric,
            profile.tensor_parallel,
            profile.pipeline_parallel,
            profile.cpu_cores,
            self.memory_bytes,
            self.disk_bytes,
            self.device_memory_bytes,
            self.ordered,
            tuple(sorted(profile.node_selector.items())),
        )


def request(
    model: Model,
    profile: Profile,
    *,
    ordered: Collection[str] = (),
    held_back: Mapping[str, Verdict] | None = None,
    device_memory_bytes: int | None = None,
) -> Request:
    """Return the request for one more replica of a model.

    Args:
        model: the catalog's.
        profile: one of its profiles.
        ordered: engines that the settings order.
        held_back: nodes that are turned away beforehand.
        device_memory_bytes: what it can not do with less of, on each device; None: not known.
    """
    return Request(
        model=model,
        profile=profile,
        memory_bytes=_bytes(profile.min_memory_gb),
        disk_bytes=_disk(model, profile),
        weights=None if model.source is None else held_as(model.source),
        ordered=profile.engine in ordered,
        held_back=held_back or {},
        device_memory_bytes=device_memory_bytes if profile.gpus else None,
    )


def _bytes(gigabytes: float | None) -> int | None:
    return None if gigabytes is None else int(gigabytes * _GB)


def _disk(model: Model, profile: Profile) -> int | None:
    if profile.disk_gb is not None:
        return _bytes(profile.disk_gb)
    return model.source.size_bytes if isinstance(model.source, PackageSource) else None
