"""Heat of the processors and of the air that comes in, and what the processors draw."""

from pathlib import Path

import msgspec

from llmgw.base.clock import Clock
from llmgw.base.units import counted
from llmgw.base.world import Files
from llmgw.model.node import Heartbeat, Sensor
from llmgw_agent.host.tree import read_live
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
_WITH_SENSORS = 10.0
_WITHOUT_SENSORS = 60.0
_CHIPS_STAY = 60.0
"""Seconds for which it is known which inputs there are: labels are many and never change."""


class SensorsProbe(Source):
    """Temperatures from hwmon and package power from RAPL: for people to look at alone.

    A virtual machine has neither. RAPL's counters are root's; another user gets no power.
    """

    name = "sensors"
    timeout = 10.0

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._inputs: dict[str, str] = {}
        self._looked_at: float | None = None
        self._before: dict[str, rapl.Package] = {}
        self._before_at = 0.0
        self.sensors: Kept[tuple[Sensor, ...]] = Kept(clock)

    @property
    def period(self) -> float:
        """Return the seconds between two readings: a machine without sensors is asked seldom."""
        return _WITHOUT_SENSORS if self.sensors.last == () else _WITH_SENSORS

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        return self.sensors.age

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add the readings."""
        return msgspec.structs.replace(heartbeat, sensors=self.sensors.fresh)

    async def read(self) -> str:
        """Read the inputs and the counters that are there."""
        heat, draw = self._temperatures(), self._powers()
        self.sensors.put((*heat, *draw))
        if not heat and not draw:
            return "no sensors"
        return f"{counted(len(heat), 'temperature')}, power of {counted(len(draw), 'package')}"

    def _temperatures(self) -> tuple[Sensor, ...]:
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= _CHIPS_STAY:
            self._inputs = dict(read_live(self._files, _HWMON, _CHIPS))
            self._looked_at = now
        wanted = hwmon.inputs_wanted(self._inputs)
        read = read_live(self._files, _HWMON, wanted) if wanted else {}
        return hwmon.reported(hwmon.read_chips({**self._inputs, **read}))

    def _powers(self) -> tuple[Sensor, ...]:
        now = self._clock.monotonic()
        tree = read_live(self._files, _POWERCAP, _PACKAGES)
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
