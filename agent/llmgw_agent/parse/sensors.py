"""`sensors -A -u` of lm-sensors: the same chips as in hwmon, in another form.

A chip's line is followed by its features (`Tctl:`), and those by their indented values
(`temp1_input: 57.500`). Limits are skipped: chips without any report nonsense for them.
"""

import re
from collections.abc import Iterator

from llmgw.base.errors import Unreadable
from llmgw_agent.parse import plausible
from llmgw_agent.parse.hwmon import Chip, ChipsSeen, Temperature, reported
from llmgw_agent.parse.tool import Tool

_INPUT = re.compile(r"temp([0-9]{1,4})_input:\s*(\S+)\s*\Z")
_NUMBER = re.compile(r"-?[0-9]{1,9}(?:\.[0-9]{1,9})?\Z")
_CHIP = re.compile(r"\S+-(?:isa|pci|i2c|acpi|virtual|hid|mdio|scsi|spi)-\S+\Z")


def read_sensors(text: str) -> tuple[Chip, ...]:
    """Return the chips in the order in which they are told.

    Raises:
        Unreadable: there is text, and no line of it is a chip's.
    """
    chips: list[Chip] = []
    for place, lines in _blocks(text):
        temperatures = tuple(_temperatures(lines))
        chips.append(Chip(place=place, name=_driver(place), temperatures=temperatures))
    if not chips and text.strip():
        raise Unreadable(f"sensors: {text.strip().splitlines()[0][:80]!r} is no chip")
    return tuple(chips)


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Return each chip's line with those below it."""
    block: tuple[str, list[str]] | None = None
    for line in text.splitlines():
        if _CHIP.match(line):
            if block is not None:
                yield block
            block = (line, [])
        elif block is not None and line.strip():
            block[1].append(line)
    if block is not None:
        yield block


def _temperatures(lines: list[str]) -> Iterator[Temperature]:
    label: str | None = None
    for line in lines:
        if not line[0].isspace():
            label = line.rstrip().removesuffix(":")
        elif match := _INPUT.match(line.strip()):
            channel = int(match[1])
            # A chip that has no label for an input is shown with the input's own name.
            named = None if label == f"temp{channel}" else label
            yield Temperature(channel=channel, label=named, celsius=_degrees(match[2]))


def _degrees(text: str) -> float | None:
    return plausible.celsius(float(text)) if _NUMBER.match(text) else None


def _driver(place: str) -> str:
    """Return `k10temp` of `k10temp-pci-00c3`; a driver's name has no dash."""
    return place.partition("-")[0]


def _read(text: str) -> ChipsSeen:
    chips = read_sensors(text)
    return ChipsSeen(chips=chips, reported=reported(chips))


TOOLS = (Tool(name="sensors", how="sensors -A -u", read=_read),)
