"""llama.cpp's output → what it computes on.

Written against recorded start-up output of several versions (tests/fixtures/llama.cpp and
llama-server). Two traps shape it: a build without any GPU prints "offloaded 3/3 layers to GPU", so
only the model buffer lines are believed; and a fitting pass, a draft model or a higher verbosity
prints the load lines more than once, so the pass that placed the most bytes is the model's.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from llmgw.model.shard import ComputeDevice, ComputeReport

CPU = "CPU"

_STAMP = re.compile(r"^\d{1,9}(?:\.\d{2,3}){3} [A-Z] ")
_NAME = r"(?<![\w.\-\[\]:])([A-Za-z][\w.\-\[\]:]*)"
_SIZE = r"buffer size\s*=\s*(\d{1,9}(?:\.\d{1,4})?) MiB"
_MODEL_BUFFER = re.compile(rf"{_NAME}\s+model {_SIZE}")
_OLD_MODEL_BUFFER = re.compile(rf"load_tensors:\s+{_NAME}\s+{_SIZE}")
_ANY_MODEL_BUFFER = re.compile(rf"(?:{_NAME}\s+model|load_tensors:\s+{_NAME})\s+buffer size")
_OFFLOADED = re.compile(r"offloaded (\d{1,6})/(\d{1,6}) layers to GPU")
_LOADING = re.compile(r"loading model tensors")
_DEVICE_INFO = re.compile(r"\s- (\w+)\s*: (.+) \(\d{1,9} MiB, \d{1,9} MiB free\)")
_USING = re.compile(r"using device (\S+) \((.+?)\)(?: \([^()]*\))? - \d{1,9} MiB free")
_CUDA_DEVICE = re.compile(r"^\s*Device (\d{1,4}): (.+?), compute capability")
_VULKAN_DEVICE = re.compile(r"ggml_vulkan: (\d{1,4}) = (.+?) \|")
_CARD = re.compile(r"([A-Za-z]+)\d*")
_BACK_ENDS = {"MTL": "Metal"}
_ON_HOST = ("CPU", "AMX", "BLAS", "HBM", "Host")


@dataclass(slots=True)
class _Pass:
    """One pass over a model's tensors."""

    offloaded: int | None = None
    layers: int | None = None
    buffers: dict[str, int] = field(default_factory=dict)
    unread: bool = False
    """It has a buffer whose size can't be read: what is not in `buffers` may be anywhere."""

    def total(self) -> int:
        return sum(self.buffers.values())


def without_stamp(line: str) -> str:
    """Return a line without the time and level that newer versions put before it."""
    return _STAMP.sub("", line)


def back_end_of(buffer: str) -> str:
    """Return the back end whose memory a buffer lies in, as `CPU`, `CUDA` or `Vulkan`."""
    if buffer.startswith(_ON_HOST) or "_Host" in buffer:
        return CPU
    match = _CARD.match(buffer)
    name = match[1] if match else buffer
    return _BACK_ENDS.get(name, name)


def read_compute(lines: Iterable[str]) -> ComputeReport | None:
    """Return what an engine computes on; None when the lines say nothing about it."""
    passes: list[_Pass] = []
    names: dict[str, str] = {}
    for line in lines:
        if line:  # an output may be all blank lines, and eight patterns a line add up
            _note_device(line, names)
            _note_load(line, passes)
    if not passes:
        return None
    # max() keeps the first of equals: a draft model loads after the model itself.
    best = max(passes, key=_Pass.total)
    return _report(best, names) if best.buffers or best.layers is not None else None


def computes_on_gpu(report: ComputeReport) -> bool | None:
    """Say whether any model buffer lies on a GPU; None when the report can't tell."""
    if any(device.back_end != CPU and device.model_bytes for device in report.devices):
        return True
    if report.devices or report.layers_offloaded == 0:
        return False
    return None


def _note_device(line: str, names: dict[str, str]) -> None:
    for pattern, prefix in (
        (_USING, ""),
        (_DEVICE_INFO, ""),
        (_CUDA_DEVICE, "CUDA"),
        (_VULKAN_DEVICE, "Vulkan"),
    ):
        if match := pattern.search(line):
            names.setdefault(prefix + match[1], match[2].strip())


def _note_load(line: str, passes: list[_Pass]) -> None:
    if _LOADING.search(line):
        passes.append(_Pass())
    elif match := _OFFLOADED.search(line):
        if not passes or passes[-1].buffers or passes[-1].layers is not None:
            passes.append(_Pass())
        passes[-1].offloaded, passes[-1].layers = int(match[1]), int(match[2])
    elif match := _MODEL_BUFFER.search(line) or _OLD_MODEL_BUFFER.search(line):
        if not passes:
            passes.append(_Pass())
        buffers = passes[-1].buffers
        # A model in several files prints one line a file for the same buffer type.
        buffers[match[1]] = buffers.get(match[1], 0) + round(float(match[2]) * (1 << 20))
    elif passes and (match := _ANY_MODEL_BUFFER.search(line)):
        passes[-1].unread |= back_end_of(match[1] or match[2]) != CPU


def _report(load: _Pass, names: dict[str, str]) -> ComputeReport:
    devices = tuple(
        ComputeDevice(
            name=name,
            back_end=back_end_of(name),
            model_bytes=size,
            description=names.get(name) or names.get(back_end_of(name)),
        )
        for name, size in load.buffers.items()
    )
    cards = [device.back_end for device in devices if device.back_end != CPU and device.model_bytes]
    offloaded = load.offloaded
    if load.unread and not cards:
        return ComputeReport(layers=load.layers)
    if not cards and (devices or offloaded == 0):
        offloaded = 0 if load.layers is not None else None
    elif not devices:
        offloaded = None
    return ComputeReport(
        devices=devices,
        back_end=cards[0] if cards else (CPU if devices else None),
        layers_offloaded=offloaded,
        layers=load.layers,
    )
