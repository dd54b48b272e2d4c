"""What a starting agent finds: which processes are its shards, which it must end, which are gone.

A pure decision. Its own processes are those with its state directory in their environment; another
agent's are not among them. One of its own that can't be described has to end: placement would hand
its devices out again. A record whose pid belongs to a process with another start time or command
line describes something that is gone; whoever has the pid now is left alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llmgw.base.secrets import Secret
from llmgw.base.world import ProcessSeen
from llmgw_agent.supervise.book import Entry, Kept, KeptProcess
from llmgw_agent.supervise.environment import SHARD, shard_of


@dataclass(frozen=True, slots=True)
class Adopted:
    """A shard that runs and is described."""

    kept: Kept
    process: KeptProcess
    key: Secret | None


@dataclass(frozen=True, slots=True)
class Undescribed:
    """A group of this agent's processes that no record describes."""

    leader: ProcessSeen
    replica: str | None
    rank: int
    devices: tuple[str, ...]
    """What it was given, as its environment says."""
    words: str


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that a starting agent finds."""

    adopted: tuple[Adopted, ...]
    undescribed: tuple[Undescribed, ...]
    gone: tuple[Kept, ...]
    """Shards whose process ended while no agent watched."""
    unreadable: tuple[Entry, ...]


def sort_out(
    entries: Iterable[Entry], processes: Sequence[ProcessSeen], *, own_group: int
) -> Found:
    """Return what becomes of each record and each process.

    Args:
        entries: the shards' directories.
        processes: the live processes whose environment names this agent's state directory.
        own_group: this agent's own process group, which is never one of its shards.
    """
    adopted: list[Adopted] = []
    gone: list[Kept] = []
    unreadable: list[Entry] = []
    for entry in entries:
        if entry.kept is None:
            unreadable.append(entry)
        elif not entry.kept.ended:
            process = _process_of(entry.kept, processes)
            if process is None:
                gone.append(entry.kept)
            else:
                adopted.append(Adopted(kept=entry.kept, process=process, key=entry.key))
    undescribed = _undescribed(processes, adopted, unreadable, own_group)
    return Found(tuple(adopted), undescribed, tuple(gone), tuple(unreadable))


def _process_of(kept: Kept, processes: Sequence[ProcessSeen]) -> KeptProcess | None:
    for seen in processes:
        if _is_it(kept, seen):
            return KeptProcess(pid=seen.pid, started=seen.started, argv=seen.argv)
    return None


def _is_it(kept: Kept, seen: ProcessSeen) -> bool:
    if kept.process is not None:
        same = (seen.pid, seen.started) == (kept.process.pid, kept.process.started)
        return same and seen.argv == kept.process.argv
    # The agent ended between starting the engine and writing down its pid.
    named = shard_of(seen.environ) == (kept.spec.replica, kept.spec.rank)
    return named and seen.pid == seen.group and seen.argv == kept.argv


def _undescribed(
    processes: Sequence[ProcessSeen],
    adopted: Sequence[Adopted],
    unreadable: Sequence[Entry],
    own_group: int,
) -> tuple[Undescribed, ...]:
    groups = {one.process.pid for one in adopted} | {own_group}
    shards = {(one.kept.spec.replica, one.kept.spec.rank) for one in adopted}
    why = {entry.directory: entry.words for entry in unreadable}
    found: dict[int, Undescribed] = {}
    for seen in sorted(processes, key=lambda one: one.pid != one.group):
        name = shard_of(seen.environ)
        # A child of an adopted engine that made a group of its own belongs to it.
        if seen.group in groups or seen.group in found or name in shards:
            continue
        replica, rank = name if name is not None else (None, 0)
        words = why.get(f"{replica}.{rank}") or "no record describes it"
        found[seen.group] = Undescribed(
            leader=seen,
            replica=replica,
            rank=rank,
            devices=_devices(seen),
            words=f"pid {seen.pid} ({seen.environ.get(SHARD, 'no shard named')}): {words}",
        )
    return tuple(found.values())


def _devices(seen: ProcessSeen) -> tuple[str, ...]:
    listed = seen.environ.get("CUDA_VISIBLE_DEVICES", "")
    return tuple(part for part in listed.split(",") if part)
