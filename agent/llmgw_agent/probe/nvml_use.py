"""Memory, processes and MIG instances of a card, through NVML."""

from collections.abc import Iterable
from typing import Any

import msgspec

from llmgw_agent.parse import plausible
from llmgw_agent.parse.card_bounds import MOST_INSTANCES
from llmgw_agent.parse.cards import CardProcess, Instance
from llmgw_agent.parse.mig import profile_of
from llmgw_agent.probe.nvml_asking import Asking, count, itself, text

_COMPUTE = "nvmlDeviceGetComputeRunningProcesses"
_OTHERS = (
    ("M+C", "nvmlDeviceGetMPSComputeRunningProcesses"),
    ("G", "nvmlDeviceGetGraphicsRunningProcesses"),
)
"""What nvidia-smi calls a kind of processes, and the list of them, which not every card has."""

_FORMS = ("", "_v2")
"""The newest form of a list, and that of drivers before 510."""


def memory(asking: Asking, handle: object) -> tuple[Any, bool | None]:
    """Return the memory, and whether the card has some of its own; None: not known."""
    nvml = asking.nvml
    # The newer question counts what the driver reserves apart, as nvidia-smi does.
    newer = asking.constant("nvmlMemory_v2")
    if newer is not None:
        told = asking.ask("nvmlDeviceGetMemoryInfo", handle, newer, to=itself)
        if told is not None:
            return told, True
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle), True
    except nvml.NVMLError as error:
        return None, False if error.value == nvml.NVML_ERROR_NOT_SUPPORTED else None


def is_mig(asking: Asking, handle: object) -> bool | None:
    """Say whether a card is in MIG mode; None where the card knows none."""
    return asking.ask("nvmlDeviceGetMigMode", handle, to=lambda modes: bool(modes[0]))


def instances(asking: Asking, handle: object, *, used: bool) -> tuple[Instance, ...] | None:
    """Return the instances of a card in MIG mode; None when they can't be counted.

    Args:
        asking: NVML.
        handle: the card.
        used: ask as well for the processes on each.
    """
    most = asking.ask("nvmlDeviceGetMaxMigDeviceCount", handle, to=count)
    if most is None:
        return None
    # Numbers may be given out with gaps.
    found = (
        (index, asking.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index, to=itself))
        for index in range(min(most, MOST_INSTANCES))
    )
    parts = tuple((index, part) for index, part in found if part is not None)
    return tuple(_instance(asking, index, part, used=used) for index, part in parts)


def _instance(asking: Asking, index: int, part: object, *, used: bool) -> Instance:
    held, _ = memory(asking, part)
    return Instance(
        index=index,
        uuid=asking.ask("nvmlDeviceGetUUID", part, to=text),
        profile=profile_of(asking.ask("nvmlDeviceGetName", part, to=text)),
        gpu_instance=asking.ask("nvmlDeviceGetGpuInstanceId", part, to=count),
        compute_instance=asking.ask("nvmlDeviceGetComputeInstanceId", part, to=count),
        multiprocessors=asking.ask(
            "nvmlDeviceGetAttributes", part, to=lambda told: count(told.multiprocessorCount)
        ),
        memory_total=None if held is None else plausible.memory(int(held.total)),
        memory_used=None if held is None else plausible.memory(int(held.used)),
        processes=processes(asking, part, of_instance=True) if used else None,
    )


def processes(
    asking: Asking, handle: object, *, of_instance: bool = False
) -> tuple[CardProcess, ...] | None:
    """Return the processes on a card or an instance, each once.

    Of a card in MIG mode those are left out that are on its instances. None when those that compute
    can't be asked for: an empty list would say that nobody is there.
    """
    computing = _listed(asking, _COMPUTE, handle)
    if computing is None:
        return None
    lists = [("C", computing)]
    lists += [(kind, _listed(asking, name, handle) or ()) for kind, name in _OTHERS]
    return _each_once(
        _process(asking, kind, one)
        for kind, listed in lists
        for one in listed
        if of_instance or not _on_instance(one)
    )


def _listed(asking: Asking, name: str, handle: object) -> tuple[Any, ...] | None:
    return asking.first([f"{name}{form}" for form in _FORMS], handle, to=tuple)


def _on_instance(process: Any) -> bool:  # noqa: ANN401 (a struct of the library)
    instance = getattr(process, "gpuInstanceId", None)
    return instance is not None and 0 <= int(instance) < 0xFFFF_FFFF


def _process(asking: Asking, kind: str, process: Any) -> CardProcess | None:  # noqa: ANN401
    pid, held = plausible.pid(int(process.pid)), process.usedGpuMemory
    return (
        None
        if pid is None
        else CardProcess(
            pid=pid,
            name=asking.ask("nvmlSystemGetProcessName", pid, to=text) or None,
            memory_bytes=None if held is None else plausible.memory(int(held)),
            kind=kind,
        )
    )


def _each_once(found: Iterable[CardProcess | None]) -> tuple[CardProcess, ...]:
    """Return the processes, one that computes and draws once: its memory is told twice."""
    kept: dict[int, CardProcess] = {}
    for process in found:
        if process is None:
            continue
        same = kept.get(process.pid)
        if same is None:
            kept[process.pid] = process
        elif process.kind == "G":
            held = same.memory_bytes if same.memory_bytes is not None else process.memory_bytes
            kept[process.pid] = msgspec.structs.replace(same, kind="C+G", memory_bytes=held)
    return tuple(kept.values())
