"""Several sources speak of one device, and none of them is overheard."""

from llmgw.model.device import GPU, MIG, Device, DeviceHealth, Xid
from llmgw.model.node import Heartbeat, Inventory, NodeWarning
from llmgw_agent.probe.merging import card_uuids, with_health, with_unhealthy, with_warnings

BEAT = Heartbeat(sequence=1)
XID = Xid(code=79, count=1)


def unhealthy(inventory: Inventory) -> list[tuple[str, ...] | None]:
    return [device.unhealthy for device in inventory.devices or ()]


def test_a_device_is_told_of_once_with_what_each_source_knows():
    beat = with_health(BEAT, {"GPU-0": DeviceHealth(uuid="GPU-0", remap_pending=True, age=3)})
    beat = with_health(beat, {"GPU-0": DeviceHealth(uuid="GPU-0", xids=(XID,), age=20)})
    assert beat.health == (DeviceHealth(uuid="GPU-0", remap_pending=True, xids=(XID,), age=20),)


def test_what_another_source_said_stays():
    beat = with_health(BEAT, {"GPU-0": DeviceHealth(uuid="GPU-0", remap_failed=False, age=9)})
    beat = with_health(beat, {"GPU-0": DeviceHealth(uuid="GPU-0", remap_failed=True, age=1)})
    assert beat.health == (DeviceHealth(uuid="GPU-0", remap_failed=False, age=9),)


def test_nothing_to_say_leaves_a_heartbeat_silent():
    assert with_health(BEAT, {}).health is None


def test_reasons_are_added_and_said_once():
    inventory = Inventory(devices=(Device(uuid="GPU-0", unhealthy=("lost",)),))
    found = with_unhealthy(inventory, {"GPU-0": ("reset the card", "lost")})
    assert unhealthy(found) == [("lost", "reset the card")]


def test_a_source_that_looked_makes_unknown_fine_and_one_that_did_not_leaves_it():
    inventory = Inventory(devices=(Device(uuid="GPU-0"), Device(uuid="GPU-1")))
    assert unhealthy(with_unhealthy(inventory, {"GPU-0": ()})) == [(), None]


def test_a_cards_reasons_count_for_its_instances():
    inventory = Inventory(
        devices=(
            Device(uuid="MIG-0", kind=MIG, card_uuid="GPU-0", unhealthy=()),
            Device(uuid="GPU-1", kind=GPU, unhealthy=()),
        )
    )
    assert unhealthy(with_unhealthy(inventory, {"GPU-0": ("reset",)})) == [("reset",), ()]


def test_devices_that_nobody_found_stay_unknown():
    assert with_unhealthy(Inventory(), {"GPU-0": ("reset",)}).devices is None


def test_warnings_are_added():
    first, second = NodeWarning(subject="gpu", words="a"), NodeWarning(subject="nvlink", words="b")
    assert with_warnings(with_warnings(Inventory(), (first,)), (second,)).warnings == (
        first,
        second,
    )
    assert with_warnings(Inventory(), ()).warnings is None


def test_cards_are_found_by_address_an_instance_by_its_cards():
    inventory = Inventory(
        devices=(
            Device(uuid="GPU-0", pci_address="00000000:3B:00.0"),
            Device(uuid="MIG-1", card_uuid="GPU-1", pci_address="00000008:01:00.0"),
            Device(uuid="unreadable-card"),
        )
    )
    assert card_uuids(inventory) == {"0000:3b:00": "GPU-0", "0008:01:00": "GPU-1"}
