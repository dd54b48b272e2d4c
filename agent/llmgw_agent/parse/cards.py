"""NVIDIA cards as either reader sees them.

NVML and nvidia-smi fill the same `Card`, so that both paths give the same records.
"""

from llmgw.model.device import DeviceHealth, NvlinkFabric, PciLink
from llmgw.model.record import Record
from llmgw_agent.parse import plausible

IDLE = "idle"
"""The clocks are low since there is nothing to do: the one event that slows nothing down."""

THROTTLE_REASONS = (
    (0x1, IDLE),
    (0x2, "application clocks"),
    (0x4, "power cap"),
    (0x8, "hardware slowdown"),
    (0x10, "sync boost"),
    (0x20, "heat (software)"),
    (0x40, "heat (hardware)"),
    (0x80, "power brake"),
    (0x100, "display clocks"),
)
"""Bits of NVML's clock event reasons, in words."""

LOST = "the card is lost: it fell off the bus, reboot the machine"
RESET_REQUIRED = "the card has to be reset before it can be used"


class CardProcess(Record, frozen=True, kw_only=True):
    """A process on a card. Bytes."""

    pid: int
    name: str | None = None
    memory_bytes: int | None = None
    kind: str | None = None
    """As nvidia-smi writes it: `C` computes, `G` draws, `C+G`, `M+C` computes through MPS."""


class Instance(Record, frozen=True, kw_only=True):
    """One MIG instance of a card. Bytes."""

    index: int | None = None
    """Its place on the card, from 0; not the GPU instance's id."""
    uuid: str | None = None
    profile: str | None = None
    """`3g.20gb`."""
    gpu_instance: int | None = None
    compute_instance: int | None = None
    multiprocessors: int | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    processes: tuple[CardProcess, ...] | None = None
    """None: it could not be asked."""
    trouble: str | None = None
    """Why nothing may be placed on it."""


class Card(Record, frozen=True, kw_only=True):
    """One card as a reader sees it. Bytes, watts, degrees Celsius, MHz, percent.

    `uuid` is None for a card that the driver does not answer for; `trouble` then says why.
    """

    index: int | None = None
    uuid: str | None = None
    name: str | None = None
    pci_address: str | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    memory_of_its_own: bool | None = None
    """False: the driver says that the question makes no sense, so the machine's memory counts."""
    busy: float | None = None
    bandwidth: float | None = None
    temperature: float | None = None
    memory_temperature: float | None = None
    power: float | None = None
    power_limit: float | None = None
    sm_clock: float | None = None
    fan: float | None = None
    mig: bool | None = None
    instances: tuple[Instance, ...] | None = None
    """Of a card in MIG mode; empty: nothing is carved, None: they could not be read."""
    compute_capability: str | None = None
    throttle_bits: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    pcie_replays: int | None = None
    numa_node: int | None = None
    pci: PciLink | None = None
    slot_generation: int | None = None
    """The fastest PCIe generation of the slot alone, where the driver tells it."""
    nvlink_peers: tuple[str, ...] | None = None
    """UUIDs of this machine's cards that it reaches over NVLink; None: it has none, or unknown."""
    fabric: NvlinkFabric | None = None
    health: DeviceHealth | None = None
    sm_active: float | None = None
    sm_occupancy: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    processes: tuple[CardProcess, ...] | None = None
    """Those of no instance; None: it could not be asked."""
    trouble: str | None = None


class CardsSeen(Record, frozen=True, kw_only=True):
    """Everything that one reading of the cards gave."""

    cards: tuple[Card, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    warning: str | None = None
    """Something about the driver that a person should know."""
    trouble: str | None = None
    """What could not be asked or contradicts itself; the rest counts."""
    cut: bool = False
    """The answer ends in the middle: that a card is not among them says nothing."""


def measured_heat(celsius: float | None) -> float | None:
    """Return a chip's temperature; None for what no running chip has.

    The guest of a virtual GPU reads 0 degrees, which nobody measured.
    """
    found = plausible.celsius(celsius)
    return found if found is not None and found > 0 else None


def measured_clock(mhz: float | None) -> float | None:
    """Return a clock; None for 0, which a virtual GPU's guest reads and no running clock has."""
    return plausible.megahertz(mhz) or None
