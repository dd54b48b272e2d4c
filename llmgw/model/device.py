"""What an engine can be given, and what it measures."""

from llmgw.model.record import Record

GPU = "gpu"
MIG = "mig"

COMPUTE = "compute"
GRAPHICS = "graphics"
BOTH = "both"

_MIG_BASE, _MIG_PER_CARD = 1000, 100


class PciLink(Record, frozen=True, kw_only=True):
    """A card's PCIe link. Generations and lanes; None where the driver does not say."""

    max_generation: int | None = None
    """Fastest generation that card and slot allow together."""
    card_generation: int | None = None
    lanes: int | None = None
    max_lanes: int | None = None


class NicDistance(Record, frozen=True, kw_only=True):
    """How far a network adapter is from a device: PIX, PXB, PHB, NODE or SYS."""

    adapter: str
    distance: str


class NvlinkFabric(Record, frozen=True, kw_only=True):
    """One GPU's membership of an NVLink domain, as `nvidia-smi -q` tells it."""

    state: str | None = None
    status: str | None = None
    cluster_uuid: str | None = None
    clique_id: int | None = None
    """Up to 32 bits, unsigned."""
    bandwidth: str | None = None
    health: str | None = None
    """The health summary of newer drivers: `Healthy`."""


class Device(Record, frozen=True, kw_only=True):
    """A GPU, or one MIG instance of a GPU. Memory in bytes."""

    uuid: str
    kind: str | None = None
    """`gpu` or `mig`."""
    number: int | None = None
    """The card's number; an instance: 1000 + 100 * card + instance."""
    name: str | None = None
    vendor: str | None = None
    device_class: str | None = None
    """As placement counts them: `h100-80g`, `a100-80g-mig-3g.40gb`."""
    card_uuid: str | None = None
    """The card of an instance; None for a card."""
    memory_bytes: int | None = None
    unified: bool | None = None
    """The device has no memory of its own: the machine's counts."""
    pci_address: str | None = None
    numa_node: int | None = None
    mig_enabled: bool | None = None
    mig_profile: str | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    compute_capability: str | None = None
    nvlink_peers: tuple[str, ...] | None = None
    adapters: tuple[NicDistance, ...] | None = None
    pci: PciLink | None = None
    nvlink: NvlinkFabric | None = None
    unhealthy: tuple[str, ...] | None = None
    """Why nothing can be placed on it, in words; empty when it is fine, None when not known."""

    @property
    def shown(self) -> str:
        """Return what people call it on its node: `gpu3`, `gpu3/mig1`; its UUID without a number.

        An instance is numbered 1000 + 100 * card + instance.
        """
        if self.number is None:
            return self.uuid
        name = f"gpu{card_number(self.number)}"
        if self.number < _MIG_BASE:
            return name
        return f"{name}/mig{(self.number - _MIG_BASE) % _MIG_PER_CARD}"


def card_number(number: int) -> int:
    """Return the number of the card that a device is, or that an instance is cut from."""
    return number if number < _MIG_BASE else (number - _MIG_BASE) // _MIG_PER_CARD


class ForeignProcess(Record, frozen=True, kw_only=True):
    """A process on a device that is not one of llmgw's own engines."""

    pid: int
    command: str | None = None
    memory_bytes: int | None = None
    kind: str | None = None
    """What it does there: `compute`, `graphics` or `both`; None: not known."""

    @property
    def only_draws(self) -> bool:
        """Return whether it is known to compute nothing: a desktop, that takes a few MiB."""
        return self.kind == GRAPHICS


class Xid(Record, frozen=True, kw_only=True):
    """One kind of driver error of a device, from the kernel log of this boot."""

    code: int
    """NVIDIA's number of it; 79 also for a card that fell off the bus without a number."""
    count: int
    last_seen: float | None = None
    """Seconds since the epoch; None where the log gives no time."""
    action: str | None = None
    """What it asks for: `ignore`, `restart_application`, `reset`, `reboot` or `replace`."""
    words: str | None = None
    """What it means."""
    cleared: bool | None = None
    """Whether the fault is over: the device was reset, its driver loaded anew, a page remapped.

    What asks for nothing, or for a restart of the application alone, leaves no fault behind: True.
    """


class DeviceHealth(Record, frozen=True, kw_only=True):
    """What a device says of its wear and faults, each minute. Counts; None: it does not tell.

    ECC counts are of the memory: volatile ones since the driver was loaded or the device reset,
    aggregate ones over its life. NVLink counts are summed over its links.
    """

    uuid: str
    ecc_corrected_volatile: int | None = None
    ecc_uncorrected_volatile: int | None = None
    ecc_corrected_aggregate: int | None = None
    ecc_uncorrected_aggregate: int | None = None
    remapped_corrected: int | None = None
    """Rows that were remapped after corrected errors."""
    remapped_uncorrected: int | None = None
    remap_pending: bool | None = None
    """A row waits for a reset to be remapped."""
    remap_failed: bool | None = None
    retired_corrected: int | None = None
    """Pages retired for repeated single-bit errors; of cards before row remapping."""
    retired_uncorrected: int | None = None
    retire_pending: bool | None = None
    nvlinks: int | None = None
    """How many links it has."""
    nvlinks_down: int | None = None
    nvlink_replay_errors: int | None = None
    nvlink_recovery_errors: int | None = None
    nvlink_crc_errors: int | None = None
    recovery_action: str | None = None
    """What the driver itself asks for: `none`, `reset`, `reboot` or `drain`."""
    xids: tuple[Xid, ...] | None = None
    """Kinds of driver errors of this boot; None: the kernel log can't be read."""
    age: float | None = None
    """Seconds since the reading."""


class DeviceSample(Record, frozen=True, kw_only=True):
    """One device's readings. Percent 0-100, watts, degrees Celsius, bytes, MHz."""

    uuid: str
    busy_percent: float | None = None
    """Share of time in which any kernel ran; not a measure of work."""
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    memory_bandwidth_percent: float | None = None
    sm_clock_mhz: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    temperature_celsius: float | None = None
    memory_temperature_celsius: float | None = None
    fan_percent: float | None = None
    throttle_reasons: tuple[str, ...] | None = None
    """Why it runs slower than it could; that it has nothing to do is no reason."""
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    pcie_replays: int | None = None
    sm_active_percent: float | None = None
    sm_occupancy_percent: float | None = None
    tensor_active_percent: float | None = None
    dram_active_percent: float | None = None
    foreign: tuple[ForeignProcess, ...] | None = None
    age: float | None = None
    """Seconds since the reading."""
