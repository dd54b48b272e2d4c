"""Cards on the bus that the driver does not list, or that are gone from it."""

from pathlib import Path

import pytest

from llmgw.base.errors import LlmgwError, Unreadable
from llmgw.model.device import Device
from llmgw.model.node import Inventory
from llmgw_agent.host.tree import Tree, TreeOf, read_live
from llmgw_agent.probe.pci import DEVICES, GONE, PciProbe
from tests.fakes.clock import FakeClock
from tests.fakes.helper import FakeHelper, silent
from tests.fakes.machine import MemoryFiles

CONFIG = b"\xde\x10\x30\x23"


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def hanging() -> set[str]:
    """Addresses of cards whose configuration never comes."""
    return set()


@pytest.fixture
def helper(files: MemoryFiles, hanging: set[str]) -> FakeHelper:
    def answer(request: TreeOf) -> Tree | LlmgwError:
        if hanging & {path.partition("/")[0] for path in request.wanted if "config" in path}:
            return silent(request)
        return Tree(files=dict(read_live(files, Path(request.root), request.wanted, request.most)))

    return FakeHelper(answer)


@pytest.fixture
def probe(files: MemoryFiles, helper: FakeHelper, clock: FakeClock) -> PciProbe:
    return PciProbe(files, helper, clock)


def plug(files: MemoryFiles, address: str, driver: str | None = "nvidia", **more: bytes) -> None:
    first = "" if driver is None else f"DRIVER={driver}\n"
    files.content[DEVICES / address / "uevent"] = (
        f"{first}PCI_CLASS=30200\nPCI_ID=10DE:2330\nPCI_SLOT_NAME={address}\n".encode()
    )
    files.content[DEVICES / address / "vendor"] = b"0x10de\n"
    files.content[DEVICES / address / "config"] = CONFIG + bytes(60)
    for name, content in more.items():
        files.content[DEVICES / address / name.replace("__", "/")] = content


def device(number: int, pci: str) -> Device:
    return Device(uuid=f"GPU-{number}", number=number, pci_address=f"0000{pci}")


def told(probe: PciProbe, *devices: Device) -> Inventory:
    return probe.onto_inventory(Inventory(devices=devices))


def words(inventory: Inventory) -> list[str]:
    return [warning.words for warning in inventory.warnings or ()]


async def test_a_machine_without_cards_is_quiet(probe, files, helper):
    files.content[DEVICES / "0000:00:03.0/vendor"] = b"0x1af4\n"
    files.content[DEVICES / "0000:00:03.0/uevent"] = b"PCI_CLASS=20000\nPCI_ID=1AF4:1041\n"
    assert await probe.read() == "no NVIDIA cards on the bus"
    assert told(probe) == Inventory(devices=())
    assert helper.asked == [], "no process is started for it"


async def test_cards_that_the_driver_lists_are_fine(probe, files):
    plug(files, "0000:19:00.0")
    assert await probe.read() == "1 NVIDIA card on the bus"
    fine = device(0, "0000:19:00.0")
    assert told(probe, fine) == Inventory(devices=(fine,))


async def test_cards_without_a_driver_are_not_the_same_as_no_cards(probe, files):
    for number in range(8):
        plug(files, f"0000:1{number}:00.0", None)
    await probe.read()
    assert words(told(probe)) == [
        "8 NVIDIA cards on the bus and no driver: install NVIDIA's driver, or modprobe nvidia"
    ]


async def test_cards_of_another_driver_are_named_with_it(probe, files):
    plug(files, "0000:19:00.0", "nouveau")
    await probe.read()
    (said,) = words(told(probe))
    assert said.startswith("1 NVIDIA card on the bus driven by nouveau, which engines can't use")


async def test_cards_that_are_lent_to_virtual_machines_are_meant_to_be_away(probe, files):
    plug(files, "0000:19:00.0", "vfio-pci")
    await probe.read()
    assert words(told(probe)) == []


async def test_a_card_that_the_driver_does_not_list_is_named(probe, files):
    plug(files, "0000:19:00.0")
    plug(files, "0000:1a:00.0")
    await probe.read()
    (said,) = words(told(probe, device(0, "0000:19:00.0")))
    assert said.startswith("the card at 0000:1a:00 is on the bus and the driver does not list it")


async def test_a_driver_without_its_tools_is_one_warning_not_one_a_card(probe, files):
    plug(files, "0000:19:00.0")
    plug(files, "0000:1a:00.0")
    await probe.read()
    (said,) = words(told(probe))
    assert said.startswith("2 NVIDIA cards on the bus and the driver loaded, but its library")


async def test_virtual_functions_of_a_card_are_no_cards(probe, files):
    plug(files, "0000:19:00.0")
    plug(files, "0000:19:00.4", physfn__vendor=b"0x10de\n")
    await probe.read()
    assert len(probe.cards.last or ()) == 1


async def test_a_card_that_reads_as_all_ones_is_gone_and_its_device_unhealthy(probe, files):
    plug(files, "0000:19:00.0")
    plug(files, "0000:1a:00.0")
    files.content[DEVICES / "0000:19:00.0/config"] = b"\xff" * 64
    assert await probe.read() == "2 NVIDIA cards on the bus, 1 gone"
    found = told(probe, device(0, "0000:19:00.0"), device(1, "0000:1a:00.0"))
    assert [one.unhealthy for one in found.devices or ()] == [(GONE,), None]
    assert words(found) == []


async def test_a_card_that_sleeps_is_not_woken(probe, files):
    plug(files, "0000:19:00.0", power__runtime_status=b"suspended\n")
    files.content[DEVICES / "0000:19:00.0/config"] = b"\xff" * 64
    assert await probe.read() == "1 NVIDIA card on the bus"


async def test_a_card_that_left_the_bus_is_remembered_until_it_is_back(probe, files):
    plug(files, "0000:19:00.0")
    await probe.read()
    files.remove(DEVICES / "0000:19:00.0")
    assert await probe.read() == "0 NVIDIA cards on the bus, 1 gone"
    assert words(told(probe)) == [f"the card at 0000:19:00 is {GONE}"]
    plug(files, "0000:19:00.0")
    await probe.read()
    assert words(told(probe, device(0, "0000:19:00.0"))) == []


async def test_nothing_is_said_before_the_driver_was_asked(probe, files):
    plug(files, "0000:19:00.0", None)
    await probe.read()
    assert probe.onto_inventory(Inventory()) == Inventory()


async def test_a_directory_that_can_not_be_read_costs_itself(probe, files):
    plug(files, "0000:19:00.0")
    del files.content[Path(DEVICES / "0000:19:00.0/config")]
    assert await probe.read() == "1 NVIDIA card on the bus"


async def test_cards_are_asked_by_a_helper_alone_and_for_no_more_than_their_id(
    probe, files, helper
):
    plug(files, "0000:19:00.0")
    read: list[Path] = []

    def note(path: Path, offset: int, most: int) -> bytes:
        read.append(path)
        return files.content[path][offset : offset + most]

    files.read_part = note
    event = "PCI_CLASS=30200\nPCI_ID=10DE:2330"
    helper.answering = lambda request: Tree(files={"0000:19:00.0/uevent": event})
    assert await probe.read() == "1 NVIDIA card on the bus"
    assert read == [DEVICES / "0000:19:00.0/vendor"]
    assert [(one.wanted, one.most) for one in helper.asked][1:] == [(("0000:19:00.0/config",), 4)]


async def test_a_card_that_hangs_costs_itself_and_is_what_it_was(probe, files, hanging):
    plug(files, "0000:19:00.0")
    plug(files, "0000:1a:00.0")
    files.content[DEVICES / "0000:19:00.0/config"] = b"\xff" * 64
    await probe.read()
    hanging.add("0000:19:00.0")
    files.content[DEVICES / "0000:1a:00.0/config"] = b"\xff" * 64
    with pytest.raises(Unreadable, match=r"0000:19:00\.0: helper: no answer"):
        await probe.read()
    found = told(probe, device(0, "0000:19:00.0"), device(1, "0000:1a:00.0"))
    assert [one.unhealthy for one in found.devices or ()] == [(GONE,), (GONE,)]
    hanging.clear()
    for address in ("0000:19:00.0", "0000:1a:00.0"):
        files.content[DEVICES / address / "config"] = CONFIG
    assert await probe.read() == "2 NVIDIA cards on the bus"
