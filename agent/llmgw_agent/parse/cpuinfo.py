"""/proc/cpuinfo: the processor's name and what its vector units can do."""

from collections.abc import Mapping

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record
from llmgw_agent.parse.tool import Tool

_NAMED = {
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "avx512f": "avx512",
    "avx512_vnni": "avx512-vnni",
    "avx512_bf16": "avx512-bf16",
    "avx_vnni": "avx-vnni",
    "amx_tile": "amx",
    "amx_int8": "amx-int8",
    "amx_bf16": "amx-bf16",
    "neon": "neon",
    "asimd": "neon",
    "sve": "sve",
    "sve2": "sve2",
    "i8mm": "i8mm",
    "bf16": "bf16",
}
"""Kernel flags that matter to engines, and what people call them."""


_OF_ARM = ("Features", "CPU implementer")
_TELLING = ("processor", "model name", "flags", *_OF_ARM)
"""Fields of which at least one stands in every text of the kernels that are supported."""


class Processor(Record, frozen=True, kw_only=True):
    """What the first processor says of itself, and how many there are."""

    cpus: int | None = None
    """Processors that the text lists; None when it numbers none."""
    model: str | None = None
    extensions: tuple[str, ...] | None = None
    """In the order of the kernel's flags; None when it lists none."""
    x86: bool | None = None
    """Whether AVX2 is to be expected: the flags are in x86's form; None: the text does not tell."""


def read_cpuinfo(text: str) -> Processor:
    """Return the processor's name and vector extensions.

    Raises:
        Unreadable: it has none of the fields that the kernel tells of a processor.
    """
    fields: dict[str, str] = {}
    cpus = 0
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
        if name.strip() == "processor":
            # Tools that merge equal sections write `0, 1, 2, 3`.
            cpus += sum(1 for number in value.split(",") if number.strip().isdecimal())
    if fields.keys().isdisjoint(_TELLING):
        raise Unreadable(f"/proc/cpuinfo: no processor in {text[:60]!r}")
    flags = fields.get("flags") or fields.get("Features")
    return Processor(
        cpus=cpus or None,
        model=fields.get("model name") or _arm_name(fields),
        extensions=None if flags is None else _extensions(flags.split()),
        x86=_x86(fields),
    )


def _x86(fields: Mapping[str, str]) -> bool | None:
    if "flags" in fields:
        return True
    return None if fields.keys().isdisjoint(_OF_ARM) else False


def read_flags(text: str) -> frozenset[str]:
    """Return every flag of the first processor by the kernel's name; empty when none is said."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def _extensions(flags: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_NAMED[flag] for flag in flags if flag in _NAMED))


def _arm_name(fields: dict[str, str]) -> str | None:
    """Return `arm 0x41 part 0xd4f` where the kernel gives numbers alone."""
    maker, part = fields.get("CPU implementer"), fields.get("CPU part")
    return f"arm {maker} part {part}" if maker and part else None


TOOLS = (Tool(name="cpuinfo", how="cat /proc/cpuinfo", read=read_cpuinfo),)
