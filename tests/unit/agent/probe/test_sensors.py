"""Heat and power of a machine's processors, read from files as sysfs has them."""

from pathlib import Path

import pytest

from llmgw.base.errors import LlmgwError, Unreadable
from llmgw.model.node import Heartbeat, Sensor
from llmgw_agent.host.tree import Tree, TreeOf, read_live
from llmgw_agent.parse.tree import read_tree
from llmgw_agent.probe.sensors import SensorsProbe
from tests.fakes.clock import FakeClock
from tests.fakes.helper import FakeHelper, silent
from tests.fakes.machine import MemoryFiles

FIXTURES = Path(__file__).parents[3] / "fixtures"
HWMON = Path("/sys/class/hwmon")
POWERCAP = Path("/sys/class/powercap")


class Machine(MemoryFiles):
    """A machine's files, and which of them were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_paths: list[str] = []
        self.hanging: set[Path] = set()

    def put(self, root: Path, tree: dict[str, str]) -> None:
        for path, content in tree.items():
            self.content[root / path] = f"{content}\n".encode()

    def read_part(self, path: Path, offset: int, most: int) -> bytes:
        self.read_paths.append(str(path))
        return super().read_part(path, offset, most)

    def answer(self, request: TreeOf) -> Tree | LlmgwError:
        """Answer as a helper does; below a root that hangs it is silent."""
        root = Path(request.root)
        if self.hanging & {root, *root.parents}:
            return silent(request)
        return Tree(files=dict(read_live(self, root, request.wanted, request.most)))


CHIPS = {
    "hwmon0/name": "nvme",
    "hwmon0/temp1_label": "Composite",
    "hwmon0/temp1_input": "43850",
    "hwmon1/name": "coretemp",
    "hwmon1/temp1_label": "Package id 0",
    "hwmon1/temp1_input": "55000",
    "hwmon1/temp2_label": "Core 0",
    "hwmon1/temp2_input": "54000",
    "hwmon2/name": "board",
    "hwmon2/temp3_label": "Inlet",
    "hwmon2/temp3_input": "23500",
}


@pytest.fixture
def machine() -> Machine:
    files = Machine()
    files.put(HWMON, CHIPS)
    files.put(POWERCAP, dict(read_tree((FIXTURES / "rapl" / "intel-rapl.tsv").read_text())))
    return files


def probe_of(files: Machine, clock: FakeClock) -> SensorsProbe:
    return SensorsProbe(files, lambda: FakeHelper(files.answer), clock)


def told(probe: SensorsProbe) -> dict[str, float | None]:
    heartbeat = probe.onto_heartbeat(Heartbeat(sequence=1))
    return {f"{s.kind} {s.label}": s.value for s in heartbeat.sensors or ()}


async def test_a_machine_tells_its_packages_heat_its_inlet_and_after_a_while_its_power(
    machine, clock: FakeClock
):
    probe = probe_of(machine, clock)
    assert await probe.read() == "2 temperatures, power of 1 package"
    assert told(probe) == {
        "temperature cpu 0 package": 55.0,
        "temperature Inlet": 23.5,
        "power cpu 0 package": None,
    }
    await clock.advance(10)
    # 1250 J more than 240422366267.
    machine.put(POWERCAP, {"intel-rapl:0/energy_uj": "241672366267"})
    machine.put(HWMON, {"hwmon1/temp1_input": "61000"})
    await probe.read()
    assert told(probe)["power cpu 0 package"] == pytest.approx(125.0)
    assert told(probe)["temperature cpu 0 package"] == 61.0
    assert probe.period == 10.0


async def test_only_what_is_told_is_read(machine, clock: FakeClock):
    probe = probe_of(machine, clock)
    await probe.read()
    machine.read_paths.clear()
    await clock.advance(10)
    await probe.read()
    assert sorted(machine.read_paths) == [
        "/sys/class/hwmon/hwmon1/temp1_input",
        "/sys/class/hwmon/hwmon2/temp3_input",
        "/sys/class/powercap/intel-rapl:0/energy_uj",
        "/sys/class/powercap/intel-rapl:0/max_energy_range_uj",
        "/sys/class/powercap/intel-rapl:0/name",
    ]


async def test_a_driver_that_is_loaded_later_is_found_within_a_minute(clock: FakeClock):
    files = Machine()
    probe = probe_of(files, clock)
    assert await probe.read() == "no sensors"
    assert probe.onto_heartbeat(Heartbeat(sequence=1)).sensors == ()
    assert probe.period == 60.0
    files.put(HWMON, CHIPS)
    await clock.advance(60)
    await probe.read()
    assert told(probe) == {"temperature cpu 0 package": 55.0, "temperature Inlet": 23.5}


async def test_counters_that_are_roots_alone_cost_the_power_alone(machine, clock):
    del machine.content[POWERCAP / "intel-rapl:0/energy_uj"]
    probe = probe_of(machine, clock)
    assert await probe.read() == "2 temperatures, power of 0 packages"
    assert "power cpu 0 package" not in told(probe)


async def test_a_sensor_that_sleeps_has_no_value_and_a_reading_is_never_repeated_for_long(
    machine, clock: FakeClock
):
    machine.put(HWMON, {"hwmon1/temp1_input": ""})
    probe = probe_of(machine, clock)
    await probe.read()
    asleep = Sensor(kind="temperature", label="cpu 0 package", value=None)
    assert asleep in (probe.onto_heartbeat(Heartbeat(sequence=1)).sensors or ())
    await clock.advance(61)
    assert probe.onto_heartbeat(Heartbeat(sequence=2)).sensors is None


async def test_readings_more_than_a_minute_apart_give_no_power(machine, clock: FakeClock):
    probe = probe_of(machine, clock)
    await probe.read()
    await clock.advance(120)
    machine.put(POWERCAP, {"intel-rapl:0/energy_uj": "241672366267"})
    await probe.read()
    assert told(probe)["power cpu 0 package"] is None


async def test_a_machine_without_sensors_starts_no_helper(clock: FakeClock):
    helper = FakeHelper(silent)
    assert await SensorsProbe(Machine(), lambda: helper, clock).read() == "no sensors"
    assert helper.asked == []


async def test_sensors_that_hang_are_read_elsewhere_and_leave_the_counters(machine, clock):
    probe = probe_of(machine, clock)
    await probe.read()
    await clock.advance(55)
    machine.hanging.add(HWMON)
    machine.put(POWERCAP, {"intel-rapl:0/energy_uj": "247297366267"})  # 6875 J more
    machine.read_paths.clear()
    with pytest.raises(Unreadable, match="/sys/class/hwmon/hwmon1: helper: no answer within 5 s"):
        await probe.read()
    assert not [path for path in machine.read_paths if "hwmon" in path]
    assert told(probe)["power cpu 0 package"] == pytest.approx(125.0)
    assert told(probe)["temperature Inlet"] == 23.5
    await clock.advance(6)
    assert list(told(probe)) == ["power cpu 0 package"]


async def test_a_helper_is_ended_with_its_probe(machine, clock):
    helper = FakeHelper(machine.answer)
    await SensorsProbe(machine, lambda: helper, clock).close()
    assert helper.closed


async def test_a_chip_that_hangs_costs_itself_and_takes_no_others_place(machine, clock: FakeClock):
    machine.put(HWMON, {path.replace("hwmon1", "hwmon3"): text for path, text in CHIPS.items()
                        if path.startswith("hwmon1/")})  # fmt: skip
    helpers: list[FakeHelper] = []

    def new_helper() -> FakeHelper:
        helpers.append(FakeHelper(machine.answer))
        return helpers[-1]

    probe = SensorsProbe(machine, new_helper, clock)
    await probe.read()
    at_first = len(helpers)
    machine.hanging.add(HWMON / "hwmon1")
    machine.put(HWMON, {"hwmon3/temp1_input": "71000"})
    for _ in range(7):
        await clock.advance(10)
        with pytest.raises(Unreadable) as caught:
            await probe.read()
        assert caught.value.message == "/sys/class/hwmon/hwmon1: helper: no answer within 5 s"
    seen = {name: value for name, value in told(probe).items() if name.startswith("temperature")}
    assert seen == {
        "temperature cpu 0 package": None,
        "temperature cpu 1 package": 71.0,
        "temperature Inlet": 23.5,
    }
    assert len(helpers) == at_first + 1
    machine.hanging.clear()
    await clock.advance(10)
    await probe.read()
    assert told(probe)["temperature cpu 0 package"] == 55.0
    assert helpers[-1].closed
