"""hwmon, the kernel's hardware monitoring: which temperatures there are, and which ones count.

Files as the kernel's `Documentation/hwmon/sysfs-interface.rst` describes them: `name` of a chip,
`tempN_input` in thousandths of a degree, `tempN_label` where the driver knows what it measures.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from llmgw.model.node import Sensor
from llmgw.model.record import Record
from llmgw_agent.parse import plausible
from llmgw_agent.parse.tool import Tool
from llmgw_agent.parse.tree import read_tree

TEMPERATURE = "temperature"

_CHANNEL = re.compile(r"temp([0-9]{1,4})_(input|label)\Z")
_WHOLE = re.compile(r"-?[0-9]{1,9}\Z")
_DIGITS = re.compile(r"([0-9]+)")
_PACKAGE = re.compile(r"(?:Package|Physical) id [0-9]+\Z")
_INLET = re.compile(r"\b(?:inlet|intake|ambient)\b", re.IGNORECASE)

_CPU_CHIPS: Mapping[str, re.Pattern[str]] = {
    "coretemp": _PACKAGE,
    "k10temp": re.compile(r"Tctl\Z"),
    "zenpower": re.compile(r"Tctl\Z"),
}
"""What a processor's driver calls the temperature of the whole package."""

_UNNAMED_PACKAGE = frozenset({"k10temp"})
"""Drivers whose first temperature is the package's and had no label in older kernels."""


class Temperature(Record, frozen=True, kw_only=True):
    """One input of a chip, in degrees Celsius; None: it has no reading now."""

    channel: int
    label: str | None = None
    celsius: float | None = None


class Chip(Record, frozen=True, kw_only=True):
    """A chip that measures. `place`: its directory, or what `sensors` calls it."""

    place: str
    name: str | None = None
    temperatures: tuple[Temperature, ...] = ()


class ChipsSeen(Record, frozen=True, kw_only=True):
    """All chips that a text tells of, and the temperatures of them that a node reports."""

    chips: tuple[Chip, ...] = ()
    reported: tuple[Sensor, ...] = ()


def read_chips(files: Mapping[str, str]) -> tuple[Chip, ...]:
    """Return the chips of a tree below /sys/class/hwmon, or one that holds such directories.

    An input that is no number is a temperature without a reading.
    """
    places: dict[str, dict[str, str]] = {}
    for path, content in files.items():
        place, _, name = path.rpartition("/")
        if name == "name" or _CHANNEL.match(name):
            places.setdefault(place, {})[name] = content
    return tuple(
        Chip(place=place, name=found.get("name") or None, temperatures=_temperatures(found))
        for place, found in sorted(places.items(), key=lambda item: _in_order(item[0]))
    )


def reported(chips: Iterable[Chip]) -> tuple[Sensor, ...]:
    """Return what a node reports of its chips: processor packages and the board's inlet.

    Packages are numbered in the order of their chips: what drivers number themselves may repeat.
    """
    chips = sorted(chips, key=lambda chip: _in_order(chip.place))
    packages = [found for chip in chips if (found := package_of(chip)) is not None]
    numbered = [_sensor(f"cpu {number} package", found) for number, found in enumerate(packages)]
    return (*numbered, *_told_apart(found for chip in chips for found in inlets_of(chip)))


def package_of(chip: Chip) -> Temperature | None:
    """Return the temperature of a processor's package; None for another chip."""
    label = _CPU_CHIPS.get(chip.name or "")
    if label is None:
        return None
    for found in chip.temperatures:
        if label.match(found.label or ""):
            return found
    unnamed = chip.name in _UNNAMED_PACKAGE and all(t.label is None for t in chip.temperatures)
    return next((t for t in chip.temperatures if t.channel == 1), None) if unnamed else None


def inlets_of(chip: Chip) -> tuple[Temperature, ...]:
    """Return a chip's temperatures of the air that comes in, by their labels alone."""
    return tuple(found for found in chip.temperatures if _INLET.search(found.label or ""))


def inputs_wanted(files: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of the inputs that `reported` needs, by the chips' names and labels alone.

    Reading the others would cost something for nothing: a core's input interrupts that core.
    """
    return tuple(path for chip in read_chips(files) for path in _inputs_wanted(chip))


def _inputs_wanted(chip: Chip) -> Iterator[str]:
    package = package_of(chip)
    for found in (*(() if package is None else (package,)), *inlets_of(chip)):
        yield f"{chip.place}/temp{found.channel}_input"
    if chip.name in _UNNAMED_PACKAGE and not chip.temperatures:
        yield f"{chip.place}/temp1_input"


def _temperatures(files: Mapping[str, str]) -> tuple[Temperature, ...]:
    inputs: dict[int, str] = {}
    labels: dict[int, str] = {}
    for name, content in files.items():
        if match := _CHANNEL.match(name):
            (inputs if match[2] == "input" else labels)[int(match[1])] = content
    return tuple(
        Temperature(
            channel=channel,
            label=labels.get(channel) or None,
            celsius=_degrees(inputs.get(channel, "")),
        )
        for channel in sorted(inputs.keys() | labels.keys())
    )


def _degrees(text: str) -> float | None:
    text = text.strip()
    return plausible.celsius(int(text) / 1000) if _WHOLE.match(text) else None


def _told_apart(inlets: Iterable[Temperature]) -> Iterator[Sensor]:
    """Return inlets under their labels; of two with one label the second gets a number."""
    seen: dict[str, int] = {}
    for found in inlets:
        label = found.label or ""
        seen[label] = seen.get(label, 0) + 1
        yield _sensor(label if seen[label] == 1 else f"{label} {seen[label]}", found)


def _sensor(label: str, found: Temperature) -> Sensor:
    return Sensor(kind=TEMPERATURE, label=label, value=found.celsius)


def _in_order(place: str) -> tuple[tuple[int, str], ...]:
    """Return a key that puts hwmon2 before hwmon10: of two numbers the longer one is larger."""
    parts = _DIGITS.split(place)
    return tuple((len(part) if part.isdecimal() else -1, part) for part in parts)


def _read(text: str) -> ChipsSeen:
    chips = read_chips(read_tree(text))
    return ChipsSeen(chips=chips, reported=reported(chips))


TOOLS = (
    Tool(
        name="hwmon",
        how="cd /sys/class/hwmon && for f in hwmon*/{name,temp*_input,temp*_label}; "
        "do [ -r $f ] && printf '%s\\t%s\\n' $f \"$(cat $f)\"; done",
        read=_read,
    ),
)
