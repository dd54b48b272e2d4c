"""/proc/cpuinfo: the processor's name and what its vector units can do."""

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


class Processor(Record, frozen=True, kw_only=True):
    """What the first processor says of itself, and how many there are."""

    cpus: int | None = None
    """Processors that the text lists; None when it numbers none."""
    model: str | None = None
    extensions: tuple[str, ...] | None = None
    """In the order of the kernel's flags; None when it lists none."""
    x86: bool = False
    """Whether AVX2 is to be expected: the flags are in x86's form."""


def read_cpuinfo(text: str) -> Processor:
    """Return the processor's name and vector extensions.

    Raises:
        Unreadable: no line of the form `name : value`.
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
    if not fields:
        raise Unreadable(f"/proc/cpuinfo: no field in {text[:60]!r}")
    x86 = "flags" in fields
    flags = fields.get("flags") or fields.get("Features")
    return Processor(
        cpus=cpus or None,
        model=fields.get("model name") or _arm_name(fields),
        extensions=None if flags is None else _extensions(flags.split()),
        x86=x86,
    )


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
