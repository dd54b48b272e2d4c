"""`nvidia-smi -q` as sections: indented lines `name : value`, and what its values mean.

What a driver does not tell is None, in whichever of its words it says so.
"""

import re
from dataclasses import dataclass, field

from llmgw_agent.parse import plausible
from llmgw_agent.parse.lines import lines_of
from llmgw_agent.parse.smi_values import not_there

_IN_ITS_PLACE = ("", "Unknown Error", "ERR!", "Insufficient Permissions", "GPU is lost")
"""What stands where a value could not be read; beside the words for a value that there is not."""

# As many digits as a sum of such numbers still holds in 64 bits.
_NUMBER = re.compile(r"(-?\d{1,15}(?:\.\d{1,15})?)\s*([^\s\d.]\S*)?")
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

_SWITCHES = {
    "yes": True,
    "no": False,
    "enabled": True,
    "disabled": False,
    "active": True,
    "not active": False,
}


@dataclass(slots=True)
class Section:
    """One line and what is indented below it. A name may come again: the first one counts."""

    name: str = ""
    value: str | None = None
    parts: list["Section"] = field(default_factory=list)

    def part(self, name: str) -> "Section":
        """Return a part by its name; one without anything in it when there is none."""
        return next((part for part in self.parts if part.name == name), Section())

    def has(self, *names: str) -> bool:
        """Say whether any of these parts is there, whatever it says."""
        return any(part.name in names for part in self.parts)

    def text(self, *names: str) -> str | None:
        """Return what the first of these parts says that says something."""
        said = (part.value for name in names for part in self.parts if part.name == name)
        return next((value for value in said if is_told(value)), None)

    def fan(self, *names: str) -> float | None:
        """Return the speed of a fan in percent."""
        return plausible.fan(self._number(names))

    def percent(self, *names: str) -> float | None:
        """Return a share, 0 to 100."""
        return plausible.percent(self._number(names))

    def celsius(self, *names: str) -> float | None:
        """Return a temperature."""
        return plausible.celsius(self._number(names))

    def watts(self, *names: str) -> float | None:
        """Return a power."""
        return plausible.watts(self._number(names))

    def megahertz(self, *names: str) -> float | None:
        """Return a clock."""
        return plausible.megahertz(self._number(names))

    def count(self, *names: str) -> int | None:
        """Return a number of things; None for what is none, as a fraction or one with a unit."""
        value, unit = self._measure(names)
        return None if unit else plausible.count(value)

    def size(self, *names: str) -> int | None:
        """Return bytes of a device's memory."""
        value, unit = self._measure(names)
        if value is None or unit not in _UNITS:
            return None
        return plausible.memory(value * _UNITS[unit] // 1)

    def _number(self, names: tuple[str, ...]) -> float | None:
        """Return a measure without its unit; None when there is no unit: the line was cut."""
        value, unit = self._measure(names)
        return value if unit else None

    def _measure(self, names: tuple[str, ...]) -> tuple[float | None, str]:
        match = _NUMBER.fullmatch(self.text(*names) or "")
        return (None, "") if match is None else (float(match[1]), match[2] or "")

    def switch(self, *names: str) -> bool | None:
        """Return what `Yes`, `Enabled`, `Active` and their opposites say."""
        return _SWITCHES.get((self.text(*names) or "").lower())


def is_told(value: str | None) -> bool:
    """Say whether a value is one, and not a word for `the driver does not tell`."""
    said = (value or "").removeprefix("[").removesuffix("]")
    return said not in _IN_ITS_PLACE and not not_there(said)


def read_sections(text: str) -> Section:
    """Return all lines below one without a name; each lies in the less indented one before it."""
    whole = Section()
    above = [(-1, whole)]
    for line in lines_of(text):
        said = line.strip()
        if not said or said.startswith("==="):
            continue
        indent = len(line.expandtabs()) - len(line.expandtabs().lstrip())
        name, colon, value = said.partition(" :")
        section = Section(name.strip(), value.strip() if colon else None)
        while above[-1][0] >= indent:
            above.pop()
        above[-1][1].parts.append(section)
        above.append((indent, section))
    return whole
