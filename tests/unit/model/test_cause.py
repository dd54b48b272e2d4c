"""One cause is said once: as a reason not to place on a device, or as what the device tells."""

import msgspec
import pytest

from llmgw.base.units import show_seconds
from llmgw.model.condition import conditions, device_facts
from llmgw.model.device import Device, DeviceHealth, Xid
from llmgw.model.node import Heartbeat, Inventory, Node
from llmgw.model.trouble import of_machine, troubles
from llmgw_agent.parse.gpu_health import reasons

NOW = 1_800_000_000.0


def facts(device: Device, health: DeviceHealth) -> list[tuple[str, bool]]:
    made = device_facts(device, health, None, None, now=NOW, ages=show_seconds)
    return [(fact.words, fact.wrong) for fact in made]


@pytest.mark.parametrize(
    ("reason", "health"),
    [
        ("row remapping failed: replace the card", {"remap_failed": True}),
        ("a row waits to be remapped: reset the card", {"remap_pending": True}),
        ("a page waits to be retired: reset the card", {"retire_pending": True}),
        ("the driver asks for a reset of the card", {"recovery_action": "reset"}),
        ("the driver asks for a reboot of the machine", {"recovery_action": "reboot"}),
        ("the driver asks to drain the card and to reset it", {"recovery_action": "drain"}),
    ],
)
def test_what_is_a_reason_already_is_not_told_again(reason: str, health: dict[str, object]) -> None:
    told = DeviceHealth(uuid="g", **health)  # type: ignore[arg-type]
    assert reasons(told) in {(reason,), None}, "agents say it so"
    assert facts(Device(uuid="g", unhealthy=(reason,)), told) == [(reason, True)]
    node = Node(
        id="n",
        liveness="ready",
        health=(f"gpu0: {reason}",),
        inventory=Inventory(devices=(Device(uuid="g", number=0, unhealthy=(reason,)),)),
    )
    beat = Heartbeat(sequence=1, health=(told,))
    assert troubles(node, beat, now=NOW, ages=show_seconds) == (f"gpu0: {reason}",)


@pytest.mark.parametrize(
    "reason",
    [
        "XID 48 (double bit error) at 2024-11-15 10:00 UTC: reset the GPU",
        "double bit error (XID 48)",
    ],
)
def test_a_driver_error_is_told_once_with_how_often_it_happened_and_what_to_do(reason: str) -> None:
    xid = Xid(code=48, count=3, action="reset", words="double bit error", last_seen=NOW - 60)
    device = Device(uuid="g", number=0, unhealthy=(reason, "XID 4: other"))
    assert facts(device, DeviceHealth(uuid="g", xids=(xid,))) == [
        ("XID 4: other", True),
        ("XID 48 3 times, last 1m00s ago: double bit error; reset the device", True),
    ]
    # A fault that is over explains nothing: the reason stays.
    over = msgspec.structs.replace(xid, cleared=True)
    told = facts(device, DeviceHealth(uuid="g", xids=(over,)))
    assert [words for words, wrong in told if wrong] == [reason, "XID 4: other"]


def test_what_is_wrong_with_a_card_is_not_told_of_its_instances_again() -> None:
    reason = "XID 48 (double bit error): reset the GPU"
    parts = tuple(
        Device(uuid=f"MIG-{n}", kind="mig", number=1001 + n, card_uuid="g", unhealthy=why)
        for n, why in enumerate(((reason,), (reason, "no UUID")))
    )
    xid = Xid(code=48, count=3, action="reset")
    beat = Heartbeat(sequence=1, health=(DeviceHealth(uuid="g", xids=(xid,)),))
    found = conditions(Inventory(devices=parts), beat, now=NOW, ages=show_seconds)
    assert [(device.uuid, [fact.words for fact in told]) for device, told in found] == [
        ("g", ["XID 48 3 times; reset the device"]),
        ("MIG-0", []),
        ("MIG-1", ["no UUID"]),
    ]
    node = Node(id="n", liveness="ready", inventory=Inventory(devices=parts), health=("told",))
    assert troubles(node, beat, now=NOW, ages=show_seconds) == ("told",)


def test_a_page_names_troubles_of_devices_with_the_devices_alone() -> None:
    sick = tuple(Device(uuid=str(n), number=n, name="H100", unhealthy=("dead",)) for n in (0, 1))
    one = Inventory(devices=sick[:1])
    alone = Node(id="n", inventory=one, health=("gpu0 (H100): dead", "/ is full"))
    assert of_machine(alone) == ("/ is full",)
    both = Node(id="n", inventory=Inventory(devices=sick), health=("gpu0, gpu1: dead", "odd"))
    assert of_machine(both) == ("odd",)
