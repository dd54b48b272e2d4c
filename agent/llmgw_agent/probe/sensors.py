"""Heat of the processors and of the air that comes in, and what the processors draw."""

from collections.abc import Mapping, Sequence
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
from llmgw_agent.probe.source import Source

POWER = "power"

_HWMON = Path("/sys/class/hwmon")
_CHIPS = ("hwmon*/name", "hwmon*/temp*_label")
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
    not started where there is nothing to read.

    Args:
        files: lists directories, which asks no driver.
        helper: a tree helper (`host.tree_side`).
        clock: the time.
    """

    name = "sensors"
    timeout = 30.0

    def __init__(self, files: Files, helper: Helper, clock: Clock) -> None:
        self._files = files
        self._helper = helper
        self._clock = clock
        self._inputs: dict[str, str] = {}
        self._looked_at: float | None = None
        self._before: dict[str, rapl.Package] = {}
        self._before_at = 0.0
        self._heat: Kept[tuple[Sensor, ...]] = Kept(clock)
        self._draw: Kept[tuple[Sensor, ...]] = Kept(clock)

    @property
    def period(self) -> float:
        """Return the seconds between two readings: a machine without sensors is asked seldom."""
        without = self._heat.last == () and self._draw.last == ()
        return _WITHOUT_SENSORS if without else _WITH_SENSORS

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        ages = (kept.age for kept in (self._heat, self._draw))
        return min((age for age in ages if age is not None), default=None)

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add the readings."""
        known = [kept.fresh for kept in (self._heat, self._draw) if kept.fresh is not None]
        told = tuple(sensor for sensors in known for sensor in sensors)
        return msgspec.structs.replace(heartbeat, sensors=told if known else None)

    async def read(self) -> str:
        """Read the inputs and the counters that are there, which fail apart."""
        asked = ((self._heat, self._temperatures), (self._draw, self._powers))
        troubles = []
        for kept, ask in asked:
            try:
                kept.put(await ask())
            except LlmgwError as error:
                troubles.append(error.message)
        if troubles:
            raise Unreadable("; ".join(troubles))
        heat, draw = self._heat.last or (), self._draw.last or ()
        if not heat and not draw:
            return "no sensors"
        return f"{counted(len(heat), 'temperature')}, power of {counted(len(draw), 'package')}"

    async def close(self) -> None:
        """End the helper."""
        await self._helper.close()

    async def _tree(self, root: Path, wanted: Sequence[str]) -> Mapping[str, str]:
        """Return the wanted files below a directory; nobody is asked where it is empty.

        Raises:
            LlmgwError: the helper did not answer; it names the directory.
        """
        if not wanted or not self._any(root):
            return {}
        request = TreeOf(root=str(root), wanted=tuple(wanted))
        try:
            return (await self._helper.ask(request, Tree, silence=_SILENCE)).files
        except LlmgwError as error:
            raise type(error)(f"{root}: {error.message}") from error

    def _any(self, directory: Path) -> bool:
        try:
            return bool(self._files.names(directory))
        except OSError:
            return False  # this user may not list it

    async def _temperatures(self) -> tuple[Sensor, ...]:
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= _CHIPS_STAY:
            self._inputs = dict(await self._tree(_HWMON, _CHIPS))
            self._looked_at = now
        read = await self._tree(_HWMON, tuple(hwmon.inputs_wanted(self._inputs)))
        return hwmon.reported(hwmon.read_chips({**self._inputs, **read}))

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
