"""A card in MIG mode on the screens: its instances, or why there are none."""

from llmgw.model.device import Device
from llmgw.model.node import Inventory, Node
from llmgw_tui.draw.seen import NodeSeen

CARD = Device(uuid="GPU-a", kind="gpu", number=0, mig_enabled=True, unhealthy=())
PARTS = tuple(
    Device(uuid=f"MIG-{place}", kind="mig", number=1000 + place, card_uuid="GPU-a")
    for place in range(2)
)
WHOLE = Device(uuid="GPU-b", kind="gpu", number=1, mig_enabled=False)


def shown(*devices: Device) -> list[str]:
    seen = NodeSeen(node=Node(id="n", inventory=Inventory(devices=devices)))
    return [device.uuid for device in seen.devices or ()]


def test_a_card_that_is_cut_is_shown_as_its_instances():
    assert shown(CARD, *PARTS, WHOLE) == ["MIG-0", "MIG-1", "GPU-b"]


def test_a_card_of_which_nothing_is_carved_is_shown_with_its_reason():
    assert shown(CARD, WHOLE) == ["GPU-a", "GPU-b"]
