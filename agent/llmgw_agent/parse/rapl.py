"""RAPL, the processors' own energy counters below /sys/class/powercap.

A package is a zone `intel-rapl:N` whose name is `package-N`, on AMD's processors too. Its cores and
memory are zones below it (`intel-rapl:N:M`), counted in it already. `intel-rapl-mmio:N` are the
same packages a second time, and `psys` is the whole board.
"""

import re
from collections.abc import Mapping

from llmgw.model.record import Record
from llmgw_agent.parse import plausible
from llmgw_agent.parse.tool import Tool
from llmgw_agent.parse.tree import read_tree

_ZONE = re.compile(r"(?:.*/)?(intel-rapl:[0-9]{1,4})/(name|energy_uj|max_energy_range_uj)\Z")
_NAME = re.compile(r"package-([0-9]{1,4})(?:-die-([0-9]{1,4}))?\Z")
_WHOLE = re.compile(r"[0-9]{1,18}\Z")

LONGEST = 60.0
"""Seconds between two readings: after more the counter may have wrapped more than once."""


class Package(Record, frozen=True, kw_only=True):
    """A processor package, or one die of it. Energy in microjoules since some time.

    `energy` is None when this user may not read it; `wraps_at` is the counter's largest value.
    """

    label: str
    energy: int | None = None
    wraps_at: int | None = None


def read_packages(files: Mapping[str, str]) -> tuple[Package, ...]:
    """Return the packages of a tree below /sys/class/powercap; none where there are no counters."""
    zones: dict[str, dict[str, str]] = {}
    for path, content in files.items():
        if match := _ZONE.match(path):
            zones.setdefault(match[1], {})[match[2]] = content.strip()
    found = (_package(zone) for _, zone in sorted(zones.items()))
    return tuple(sorted((p for p in found if p is not None), key=lambda p: p.label))


def power(before: Package, after: Package, seconds: float) -> float | None:
    """Return the watts drawn on average between two readings of one package.

    A counter that is lower than before has wrapped, once. None when that can't be told: there is
    a reading missing, no time passed or too much, or the counter was set back, or it stands
    still, as in a virtual machine: no processor draws nothing.
    """
    if before.energy is None or after.energy is None or not 0 < seconds <= LONGEST:
        return None
    drawn = after.energy - before.energy
    if drawn == 0:
        return None
    if drawn < 0:
        if after.wraps_at is None:
            return None
        drawn += after.wraps_at
    # No package draws more than is plausible: the counter was set back then, not wrapped.
    return plausible.watts(drawn / 1e6 / seconds)


def _package(zone: Mapping[str, str]) -> Package | None:
    name = _NAME.match(zone.get("name", ""))
    if name is None:
        return None
    die = "package" if name[2] is None else f"die {name[2]}"
    return Package(
        label=f"cpu {name[1]} {die}",
        energy=_microjoules(zone, "energy_uj"),
        wraps_at=_microjoules(zone, "max_energy_range_uj"),
    )


def _microjoules(zone: Mapping[str, str], name: str) -> int | None:
    text = zone.get(name, "")
    return int(text) if _WHOLE.match(text) else None


def _read(text: str) -> tuple[Package, ...]:
    return read_packages(read_tree(text))


TOOLS = (
    Tool(
        name="rapl",
        how="cd /sys/class/powercap && for f in intel-rapl*/{name,energy_uj,max_energy_range_uj}; "
        "do [ -r $f ] && printf '%s\\t%s\\n' $f \"$(cat $f)\"; done",
        read=_read,
    ),
)
