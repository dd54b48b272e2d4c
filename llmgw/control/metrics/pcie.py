"""Devices' PCIe links: what is there against what could be. The generation in use is not told."""

from collections.abc import Callable
from operator import attrgetter

from llmgw.control.metrics.devices import NODE_GONE
from llmgw.control.metrics.family import Figures, NodeFamily
from llmgw.control.metrics.onenode import DEVICE, OneNode

NOT_TOLD = "the driver does not tell, or " + NODE_GONE


def _of(name: str) -> Callable[[OneNode], Figures]:
    value = attrgetter(name)
    return lambda node: [
        (text, None if device.pci is None else value(device.pci)) for text, device in node.devices
    ]


FAMILIES = (
    NodeFamily(
        name="llmgw_gpu_pcie_lanes",
        labels=DEVICE,
        unit="lanes",
        help="PCIe lanes that a device uses.",
        absent=NOT_TOLD,
        read=_of("lanes"),
    ),
    NodeFamily(
        name="llmgw_gpu_pcie_max_lanes",
        labels=DEVICE,
        unit="lanes",
        help="PCIe lanes that a device could use.",
        absent=NOT_TOLD,
        read=_of("max_lanes"),
    ),
    NodeFamily(
        name="llmgw_gpu_pcie_max_generation",
        labels=DEVICE,
        unit="-",
        help="Newest generation of PCIe that device and slot allow together.",
        absent=NOT_TOLD,
        read=_of("max_generation"),
    ),
    NodeFamily(
        name="llmgw_gpu_pcie_card_generation",
        labels=DEVICE,
        unit="-",
        help="Generation of PCIe of the device itself.",
        absent=NOT_TOLD,
        read=_of("card_generation"),
    ),
)
