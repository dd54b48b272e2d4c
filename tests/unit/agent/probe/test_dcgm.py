"""A dcgm-exporter on the node adds what the cards' own readings lack, and nothing else."""

import msgspec
import pytest

from llmgw.base.errors import TimedOut, Unreachable
from llmgw.base.world import HttpAnswer
from llmgw.model.device import Device, DeviceSample
from llmgw.model.node import Heartbeat, Inventory
from llmgw.model.settings import NodeSettings
from llmgw_agent.probe.dcgm import DcgmProbe
from tests.fakes.clock import FakeClock
from tests.fakes.machine import FakeHttp

URL = "http://127.0.0.1:9400/metrics"
CARD = Device(uuid="GPU-a", number=0)
OTHER = Device(uuid="GPU-b", number=1)


def instance(number: int, compute: int = 0) -> Device:
    return Device(
        uuid=f"MIG-{number}-{compute}",
        card_uuid="GPU-a",
        gpu_instance=number,
        compute_instance=compute,
    )


def line(name: str, value: float, labels: str = 'gpu="0",UUID="GPU-a"') -> str:
    return f"DCGM_FI_PROF_{name}{{{labels}}} {value:f}\n"


class Exporter:
    """An exporter whose page a test writes, and the probe that asks it."""

    def __init__(self, clock: FakeClock, page: str = "", url: str | None = URL) -> None:
        self.http = FakeHttp()
        self.page, self.status = page, 200
        self.http.answering = lambda url, headers: HttpAnswer(
            status=self.status, body=self.page.encode()
        )
        self.settings: NodeSettings | None = NodeSettings(version=1, dcgm_exporter=url)
        self.probe = DcgmProbe(self.http, lambda: self.settings, clock)

    async def samples(
        self, devices: tuple[Device, ...], *samples: DeviceSample
    ) -> dict[str, DeviceSample]:
        """Read the page and return what a heartbeat has then, by device."""
        self.probe.onto_inventory(Inventory(devices=devices))
        await self.probe.read()
        return self.told(devices, *samples)

    def told(self, devices: tuple[Device, ...], *samples: DeviceSample) -> dict[str, DeviceSample]:
        inventory = Inventory(devices=devices)
        assert self.probe.onto_inventory(inventory) is inventory
        given = samples or tuple(DeviceSample(uuid=device.uuid) for device in devices)
        heartbeat = self.probe.onto_heartbeat(Heartbeat(sequence=1, devices=given))
        return {sample.uuid: sample for sample in heartbeat.devices or ()}


async def test_a_card_gets_the_figures_of_the_page(clock):
    page = line("SM_ACTIVE", 0.425) + line("SM_OCCUPANCY_RATIO", 0.125)
    page += line("PIPE_TENSOR_ACTIVE", 0.25) + line("DRAM_UTIL_RATIO", 0.5)
    found = await Exporter(clock, page).samples((CARD, OTHER))
    assert found["GPU-a"] == DeviceSample(
        uuid="GPU-a",
        sm_active_percent=42.5,
        sm_occupancy_percent=12.5,
        tensor_active_percent=25.0,
        dram_active_percent=50.0,
    )
    assert found["GPU-b"] == DeviceSample(uuid="GPU-b")


async def test_what_the_driver_told_stays_and_only_what_lacks_is_filled(clock):
    page = line("SM_ACTIVE", 0.9) + line("DRAM_ACTIVE", 0.5)
    page += 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 80\n'
    own = DeviceSample(uuid="GPU-a", sm_active_percent=10.0, age=3.0)
    found = await Exporter(clock, page).samples((CARD,), own)
    assert found["GPU-a"] == msgspec.structs.replace(own, dram_active_percent=50.0)


async def test_an_instance_has_its_own_figures_and_never_its_cards(clock):
    page = line("SM_ACTIVE", 0.9)
    page += line("SM_ACTIVE", 0.2, 'gpu="0",UUID="GPU-a",GPU_I_ID="1",GPU_I_PROFILE="3g.40gb"')
    found = await Exporter(clock, page).samples((instance(1), instance(2)))
    assert found["MIG-1-0"].sm_active_percent == 20.0
    assert found["MIG-2-0"].sm_active_percent is None


async def test_a_card_never_has_the_figures_of_an_instance(clock):
    page = line("SM_ACTIVE", 0.2, 'gpu="0",UUID="GPU-a",GPU_I_ID="1"')
    found = await Exporter(clock, page).samples((CARD,))
    assert found["GPU-a"].sm_active_percent is None


async def test_instances_that_share_one_gpu_instance_have_no_figures_of_their_own(clock):
    page = line("SM_ACTIVE", 0.2, 'gpu="0",UUID="GPU-a",GPU_I_ID="1"')
    found = await Exporter(clock, page).samples((instance(1, 0), instance(1, 1)))
    assert [sample.sm_active_percent for sample in found.values()] == [None, None]


async def test_a_page_that_names_no_uuid_is_matched_by_the_cards_number(clock):
    found = await Exporter(clock, line("SM_ACTIVE", 0.5, 'gpu="1"')).samples((CARD, OTHER))
    assert found["GPU-b"].sm_active_percent == 50.0
    assert found["GPU-a"].sm_active_percent is None


@pytest.mark.parametrize("settings", [None, NodeSettings(version=1), NodeSettings(version=2)])
async def test_nobody_is_asked_where_no_address_is_set(clock, settings):
    exporter = Exporter(clock, line("SM_ACTIVE", 0.5))
    exporter.settings = settings
    assert await exporter.probe.read() == "no dcgm-exporter is set"
    assert exporter.http.asked == []


async def test_an_address_that_is_taken_away_takes_its_figures_along(clock):
    exporter = Exporter(clock, line("SM_ACTIVE", 0.5))
    assert (await exporter.samples((CARD,)))["GPU-a"].sm_active_percent == 50.0
    exporter.settings = NodeSettings(version=2, dcgm_exporter="")
    assert (await exporter.samples((CARD,)))["GPU-a"].sm_active_percent is None


async def test_an_exporter_that_fails_says_so_and_its_last_figures_stay_a_minute(
    clock: FakeClock,
):
    exporter = Exporter(clock, line("SM_ACTIVE", 0.5))
    exporter.probe.onto_inventory(Inventory(devices=(CARD,)))
    assert await exporter.probe.read() == "profiling counters of 1 device"
    exporter.status = 503
    await clock.advance(10)
    with pytest.raises(Unreachable, match="answers 503"):
        await exporter.probe.read()
    assert exporter.told((CARD,))["GPU-a"].sm_active_percent == 50.0
    await clock.advance(51)
    assert exporter.told((CARD,))["GPU-a"].sm_active_percent is None
    assert exporter.http.asked == [(URL, {})] * 2


@pytest.mark.parametrize("devices", [None, ()])
async def test_a_machine_without_cards_asks_nobody_and_is_told_nothing(clock, devices):
    exporter = Exporter(clock, line("SM_ACTIVE", 0.5))
    exporter.probe.onto_inventory(Inventory(devices=devices))
    assert await exporter.probe.read() == "no cards of which a dcgm-exporter could tell"
    assert exporter.http.asked == []
    heartbeat = Heartbeat(sequence=1)
    assert exporter.probe.onto_heartbeat(heartbeat) is heartbeat


def refuse(url: str, headers: object) -> HttpAnswer:
    raise Unreachable(f"{url}: Connection refused")


def drop(url: str, headers: object) -> HttpAnswer:
    raise TimedOut(f"{url}: no answer within 5 s")


@pytest.mark.parametrize("nobody", [refuse, drop])
async def test_a_node_where_no_exporter_ever_answered_says_so_and_does_not_fail(clock, nobody):
    exporter = Exporter(clock)
    exporter.http.answering = nobody
    exporter.probe.onto_inventory(Inventory(devices=(CARD,)))
    assert await exporter.probe.read() == f"no dcgm-exporter answers at {URL}"
    assert exporter.told((CARD,))["GPU-a"] == DeviceSample(uuid="GPU-a")


@pytest.mark.parametrize(("nobody", "error"), [(refuse, Unreachable), (drop, TimedOut)])
async def test_an_exporter_that_answered_before_is_missed(clock, nobody, error):
    exporter = Exporter(clock, line("SM_ACTIVE", 0.5))
    await exporter.samples((CARD,))
    exporter.http.answering = nobody
    with pytest.raises(error, match=r"Connection refused|no answer within"):
        await exporter.probe.read()


async def test_another_address_begins_as_one_where_none_ever_answered(clock):
    exporter = Exporter(clock, line("SM_ACTIVE", 0.5))
    await exporter.samples((CARD,))
    exporter.http.answering = refuse
    exporter.settings = NodeSettings(version=2, dcgm_exporter="http://127.0.0.1:9500/metrics")
    assert (
        await exporter.probe.read() == "no dcgm-exporter answers at http://127.0.0.1:9500/metrics"
    )
    assert exporter.told((CARD,))["GPU-a"].sm_active_percent is None
