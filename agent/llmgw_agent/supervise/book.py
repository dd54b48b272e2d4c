"""What is kept on disk of each shard, so that a later agent can take it over.

One directory a shard, `<state>/shards/<replica>.<rank>/`: `shard.json` (the whole spec, the
process, the compute report), `key` (the replica's key, alone in its file) and `engine.log`, which
the engine itself appends to.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from llmgw.base.errors import LlmgwError, NotFound, Refused
from llmgw.base.secrets import Secret
from llmgw.base.world import Files
from llmgw.model.record import Record
from llmgw.model.shard import ComputeReport, ShardSpec

RECORD = "shard.json"
KEY = "key"
LOG = "engine.log"

_REPLICA = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,100}[a-z0-9])?")
_RANK = re.compile(r"[0-9]{1,4}")
_DIRECTORY = re.compile(rf"({_REPLICA.pattern})\.({_RANK.pattern})")


class KeptProcess(Record, frozen=True, kw_only=True):
    """The engine's process. Its pid leads its session and its group.

    `started` is the kernel's start time in ticks since boot: pid and start time name one process.
    """

    pid: int
    started: int
    argv: tuple[str, ...]


class Kept(Record, frozen=True, kw_only=True):
    """A shard as a later agent finds it. Times in seconds since the epoch."""

    spec: ShardSpec
    state: str
    since: float
    argv: tuple[str, ...] | None = None
    """How it is about to be started: written before the process is there."""
    process: KeptProcess | None = None
    launched: float | None = None
    address: str | None = None
    port: int | None = None
    compute: ComputeReport | None = None
    keyed: bool | None = None
    ready: bool = False
    """It has been ready once."""
    term_sent: bool = False
    """It was asked to end: a second SIGTERM makes llama-server abort."""
    reason: str | None = None
    cause: str | None = None
    ended: bool = False
    """Nothing of it runs; the directory is there for its log alone."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One shard's directory, as it was read. Without `kept` nobody can say what it describes."""

    directory: str
    kept: Kept | None
    key: Secret | None
    words: str | None = None
    """Why it can't be read."""


class Book:
    """The shards' directories."""

    def __init__(self, files: Files, state_dir: Path) -> None:
        self._files = files
        self._root = state_dir / "shards"

    def directory(self, replica: str, rank: int) -> Path:
        """Return a shard's directory.

        Raises:
            Refused: the id is none that llmgw makes, and could leave the directory.
        """
        if not _REPLICA.fullmatch(replica) or not 0 <= rank <= 9999:
            raise Refused(f"{replica!r}/{rank} is not a shard's id")
        return self._root / f"{replica}.{rank}"

    def log_path(self, replica: str, rank: int) -> Path:
        """Return where a shard's engine writes."""
        return self.directory(replica, rank) / LOG

    def save(self, kept: Kept) -> None:
        """Keep a shard's record; the whole file or nothing."""
        path = self.directory(kept.spec.replica, kept.spec.rank) / RECORD
        self._files.write(path, msgspec.json.format(msgspec.json.encode(kept)))

    def save_key(self, replica: str, rank: int, key: Secret) -> None:
        """Keep a replica's key, readable for this user alone."""
        path = self.directory(replica, rank) / KEY
        self._files.write(path, key.reveal().encode(), mode=0o600)

    def remove_key(self, replica: str, rank: int) -> None:
        """Forget a replica's key: nothing that it opens runs any more."""
        self._files.remove(self.directory(replica, rank) / KEY)

    def remove(self, replica: str, rank: int) -> None:
        """Forget a shard and its log."""
        self._files.remove(self.directory(replica, rank))

    def read(self) -> tuple[Entry, ...]:
        """Return every shard's directory; one that can't be read says why and hides no other."""
        return tuple(
            self._entry(name)
            for name in self._files.names(self._root)
            if _DIRECTORY.fullmatch(name)
        )

    def _entry(self, name: str) -> Entry:
        place = self._root / name
        try:
            kept = msgspec.json.decode(self._files.read(place / RECORD), type=Kept)
        except (msgspec.MsgspecError, LlmgwError, OSError, UnicodeDecodeError) as error:
            return Entry(directory=name, kept=None, key=None, words=f"{place / RECORD}: {error}")
        if name != f"{kept.spec.replica}.{kept.spec.rank}":
            words = f"{place / RECORD}: describes {kept.spec.replica}/{kept.spec.rank}"
            return Entry(directory=name, kept=None, key=None, words=words)
        return Entry(directory=name, kept=kept, key=self._key(place / KEY))

    def _key(self, path: Path) -> Secret | None:
        try:
            text = self._files.read(path).decode().strip()
        except (NotFound, OSError, UnicodeDecodeError):
            return None
        return Secret(text) if text else None


def parse_source(source: str) -> tuple[str, int]:
    """Return replica and rank of `<replica>/<rank>`.

    Raises:
        NotFound: it names no shard.
    """
    replica, _, rank = source.rpartition("/")
    if not _REPLICA.fullmatch(replica) or not _RANK.fullmatch(rank):
        raise NotFound(f"{source!r} is no shard; write it as replica/rank")
    return replica, int(rank)
