"""What is asked of the disk helper: calls on filesystems that may be a network's."""

from llmgw.model.record import Record
from llmgw_agent.weights.cache import HeldSet


class SpaceOf(Record, frozen=True, kw_only=True, tag_field="kind", tag="space"):
    """The filesystem of one directory."""

    path: str


class Space(Record, frozen=True, kw_only=True):
    """Where a directory really is, and the space there in bytes; all None when it is missing."""

    real: str | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None


class SetsIn(Record, frozen=True, kw_only=True, tag_field="kind", tag="sets"):
    """The weights in a directory: llmgw's own, or one that an operator named."""

    path: str
    ours: bool


class Sets(Record, frozen=True, kw_only=True):
    """What was found."""

    sets: tuple[HeldSet, ...]


class LookAt(Record, frozen=True, kw_only=True, tag_field="kind", tag="look"):
    """A path that a catalog names: is it there, is it weights?"""

    path: str


class Looked(Record, frozen=True, kw_only=True):
    """It is: a file of that kind, or a directory of safetensors."""

    kind: str


class RemoveSets(Record, frozen=True, kw_only=True, tag_field="kind", tag="remove"):
    """Remove sets of llmgw's own directory."""

    cache: str
    names: tuple[str, ...]
    in_use: tuple[str, ...]


class SetsRemoved(Record, frozen=True, kw_only=True):
    """Names that were removed, and refusals in words."""

    removed: tuple[str, ...]
    refused: tuple[str, ...]


DiskRequest = SpaceOf | SetsIn | LookAt | RemoveSets
