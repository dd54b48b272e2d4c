"""What `nvidia-smi -q` tells of a machine's cards, as records. None: the driver does not tell."""

from llmgw.model.device import NvlinkFabric, PciLink
from llmgw.model.record import Record


class ReportProcess(Record, frozen=True, kw_only=True):
    """A process on a card."""

    pid: int
    kind: str | None = None
    """`C` computes, `G` draws, `C+G` both, `M+C` computes under MPS."""
    name: str | None = None
    memory_bytes: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None


class CardMemory(Record, frozen=True, kw_only=True):
    """A card's own memory, in bytes."""

    total: int | None = None
    reserved: int | None = None
    used: int | None = None
    free: int | None = None


class CardHeat(Record, frozen=True, kw_only=True):
    """Temperatures and their limits, in degrees Celsius."""

    gpu: float | None = None
    memory: float | None = None
    to_limit: float | None = None
    """How much warmer the GPU may get (T.Limit of newer cards, which give no other limits)."""
    shutdown: float | None = None
    slowdown: float | None = None
    most_operating: float | None = None


class CardPower(Record, frozen=True, kw_only=True):
    """The GPU's power, in watts: not that of its memory, nor of the module that it sits on."""

    draw: float | None = None
    limit: float | None = None
    """The one in force."""
    requested_limit: float | None = None
    default_limit: float | None = None
    least_limit: float | None = None
    most_limit: float | None = None


class CardClocks(Record, frozen=True, kw_only=True):
    """Clocks in MHz."""

    graphics: float | None = None
    sm: float | None = None
    memory: float | None = None
    video: float | None = None


class MemoryErrors(Record, frozen=True, kw_only=True):
    """ECC errors, summed over on-chip and device memory."""

    corrected_volatile: int | None = None
    uncorrected_volatile: int | None = None
    corrected_aggregate: int | None = None
    uncorrected_aggregate: int | None = None
    threshold_exceeded: bool | None = None
    """More uncorrected on-chip errors over the card's life than its maker allows."""


class RemappedRows(Record, frozen=True, kw_only=True):
    """Rows of memory that were replaced by spare ones."""

    corrected: int | None = None
    uncorrected: int | None = None
    pending: bool | None = None
    failed: bool | None = None


class RetiredPages(Record, frozen=True, kw_only=True):
    """Pages of memory that are no longer used, of cards before row remapping."""

    corrected: int | None = None
    """After repeated single-bit errors."""
    uncorrected: int | None = None
    pending: bool | None = None


class GpuReport(Record, frozen=True, kw_only=True):
    """One card's section of the report."""

    pci_address: str | None = None
    uuid: str | None = None
    name: str | None = None
    whole: bool = False
    """The section goes on to its processes, which come last: what it lacks was not cut off."""
    addressing_mode: str | None = None
    """In the driver's word: `None` where it shares no addresses with the processor, `ATS`."""
    mig: bool | None = None
    memory: CardMemory | None = None
    busy_percent: float | None = None
    memory_bandwidth_percent: float | None = None
    fan_percent: float | None = None
    heat: CardHeat | None = None
    power: CardPower | None = None
    clocks: CardClocks | None = None
    most_clocks: CardClocks | None = None
    throttle_reasons: tuple[str, ...] | None = None
    """Words of `parse.cards.THROTTLE_REASONS`."""
    ecc: bool | None = None
    """Whether memory errors are looked for."""
    errors: MemoryErrors | None = None
    remapped: RemappedRows | None = None
    retired: RetiredPages | None = None
    recovery_action: str | None = None
    """What the driver asks for: `none`, `reset`, `reboot` or `drain`."""
    pci: PciLink | None = None
    pcie_replays: int | None = None
    fabric: NvlinkFabric | None = None
    """None as well where the driver says that the question makes no sense."""
    processes: tuple[ReportProcess, ...] | None = None


class SmiReport(Record, frozen=True, kw_only=True):
    """A whole report."""

    driver: str | None = None
    cuda: str | None = None
    attached: int | None = None
    """How many cards the driver counts; there may be fewer sections, when the report is cut."""
    gpus: tuple[GpuReport, ...] = ()
