"""Heat of the processors and of the air that comes in, and what the processors draw."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, Unreadable
from llmgw.base.units import counted
from llmgw.base.world import Files
from llmgw.model.node import Heartbeat, Sensor
from llmgw_agent.host.helper import Helper
from llmgw_agent.host.tree import Tree, TreeOf
from llmgw_agent.parse import hwmon, rapl
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.one_each import OneEach
from llmgw_agent.probe.source import Source

POWER = "power"

_HWMON = Path("/sys/class/hwmon")
_IDENTITY = ("name", "temp*_label")
_MOST_CHIPS = 256
_POWERCAP = Path("/sys/class/powercap")
_PACKAGES = tuple(
    f"intel-rapl:{number}/{name}"
    for number in ("[0-9]", "[0-9][0-9]")
    for name in ("name", "energy_uj", "max_energy_range_uj")
)
_SILENCE = 5.0
_WITH_SENSORS = 10.0
_WITHOUT_SENSORS = 60.0
_CHIPS_STAY = 60.0
"""Seconds for which it is known which inputs there are: labels are many and never change."""


class SensorsProbe(Source):
    """Temperatures from hwmon and package power from RAPL: for people to look at alone.

    A virtual machine has neither. RAPL's counters are root's; another user gets no power. A sensor
    may be read over a slow bus or from a controller that hangs: a helper process does it, which is
    not started where there is nothing to read, and a chip that hangs costs itself (`OneEach`).

    Args:
        files: lists directories, which asks no driver.
        new_helper: makes a tree helper (`host.tree_side`).
        clock: the time.
    """

    name = "sensors"
    timeout = 30.0

    def __init__(self, files: Files, new_helper: Callable[[], Helper], clock: Clock) -> None:
        self._files = files
        self._helper = new_helper()
        self._helpers = OneEach(new_helper)
        self._clock = clock
        self._chips: dict[str, _Chip] = {}
        self._before: dict[str, rapl.Package] = {}
        self._before_at = 0.0
        self._looked: Kept[int] = Kept(clock)
        """How many chips there are."""
        self._draw: Kept[tuple[Sensor, ...]] = Kept(clock)

    @property
    def period(self) -> float:
        """Return the seconds between two readings: a machine without sensors is asked seldom."""
        without = self._looked.last is not None and not self._heat and self._draw.last == ()
        return _WITHOUT_SENSORS if without else _WITH_SENSORS

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        ages = (self._looked.age, self._draw.age)
        return min((age for age in ages if age is not None), default=None)

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add the readings."""
        known = [sensors for sensors in (self._heat, self._draw.fresh) if sensors is not None]
        told = tuple(sensor for sensors in known for sensor in sensors)
        return msgspec.structs.replace(heartbeat, sensors=told if known else None)

    async def read(self) -> str:
        """Read the inputs and the counters that are there, which fail apart."""
        troubles = await self._read_chips()
        try:
            self._draw.put(await self._powers())
        except LlmgwError as error:
            troubles.append(error.message)
        if troubles:
            raise Unreadable("; ".join(troubles))
        heat, draw = self._heat or (), self._draw.last or ()
        if not heat and not draw:
            return "no sensors"
        return f"{counted(len(heat), 'temperature')}, power of {counted(len(draw), 'package')}"

    @property
    def _heat(self) -> tuple[Sensor, ...] | None:
        """Return the temperatures; None when none could be read for a minute.

        One that could not keeps its place among the others, whose numbers depend on it.
        """
        chips = [chip for chip in self._chips.values() if chip.wanted]
        silent = bool(chips) and all(chip.inputs.fresh is None for chip in chips)
        if silent or self._looked.fresh is None:
            return None
        files = {path: text for chip in chips for path, text in chip.files}
        return hwmon.reported(hwmon.read_chips(files))

    async def close(self) -> None:
        """End the helpers."""
        await self._helpers.close()
        await self._helper.close()

    async def _tree(self, root: Path, wanted: Sequence[str]) -> Mapping[str, str]:
        """Return the wanted files below a directory; nobody is asked where it is empty.

        Raises:
            LlmgwError: the helper did not answer; it names the directory.
        """
        if not self._names(root):
            return {}
        request = TreeOf(root=str(root), wanted=tuple(wanted))
        try:
            return (await self._helper.ask(request, Tree, silence=_SILENCE)).files
        except LlmgwError as error:
            raise type(error)(f"{root}: {error.message}") from error

    def _names(self, directory: Path) -> tuple[str, ...]:
        try:
            return self._files.names(directory)
        except OSError:
            return ()  # this user may not list it

    async def _read_chips(self) -> list[str]:
        """Read every chip; return what went wrong, in words."""
        names = [name for name in self._names(_HWMON) if name.startswith("hwmon")][:_MOST_CHIPS]
        self._chips = {name: self._chips.get(name, _Chip(self._clock)) for name in names}
        await self._helpers.hold(names)
        troubles = await self._helpers.ask(names, self._read_chip)
        if not names or len(troubles) < len(names):
            self._looked.put(len(names))
        return [f"{_HWMON / name}: {error.message}" for name, error in troubles.items()]

    async def _read_chip(self, name: str, helper: Helper) -> None:
        chip = self._chips[name]
        if chip.identity.age is None or chip.identity.age >= _CHIPS_STAY:
            chip.identity.put(await _below(name, _IDENTITY, helper))
        chip.inputs.put(await _below(name, chip.wanted, helper))

    async def _powers(self) -> tuple[Sensor, ...]:
        tree = await self._tree(_POWERCAP, _PACKAGES)
        now = self._clock.monotonic()
        found = {package.label: package for package in rapl.read_packages(tree)}
        before, passed = self._before, now - self._before_at
        self._before, self._before_at = found, now
        return tuple(
            Sensor(
                kind=POWER,
                label=label,
                value=rapl.power(before[label], package, passed) if label in before else None,
            )
            for label, package in found.items()
            if package.energy is not None
        )


class _Chip:
    """What was read of one chip: which inputs it has, and what they say."""

    def __init__(self, clock: Clock) -> None:
        self.identity: Kept[Mapping[str, str]] = Kept(clock)
        self.inputs: Kept[Mapping[str, str]] = Kept(clock)

    @property
    def wanted(self) -> tuple[str, ...]:
        """Return the names of the inputs that a node reports."""
        paths = hwmon.inputs_wanted(self.identity.last or {})
        return tuple(path.rpartition("/")[2] for path in paths)

    @property
    def files(self) -> Iterable[tuple[str, str]]:
        """Return what is known of it, without inputs that nobody could read for a minute."""
        return (*(self.identity.last or {}).items(), *(self.inputs.fresh or {}).items())


async def _below(name: str, wanted: Sequence[str], helper: Helper) -> Mapping[str, str]:
    """Return the wanted files of a chip, by their paths from the directory of all chips."""
    if not wanted:
        return {}
    request = TreeOf(root=str(_HWMON / name), wanted=tuple(wanted))
    files = (await helper.ask(request, Tree, silence=_SILENCE)).files
    return {f"{name}/{path}": text for path, text in files.items()}
