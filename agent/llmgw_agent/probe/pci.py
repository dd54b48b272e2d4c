"""NVIDIA cards on the bus beside those that the driver lists: what is there, and what is gone."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound
from llmgw.base.world import Files
from llmgw.model.node import Inventory, NodeWarning
from llmgw_agent.host.tree import read_live
from llmgw_agent.parse.pci_bus import WANTED, BusCard, cards
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.merging import card_uuids, with_unhealthy, with_warnings
from llmgw_agent.probe.source import Source

DEVICES = Path("/sys/bus/pci/devices")

GONE = (
    "gone from the bus: reboot the machine; if it stays away, check its power, its seat and cables"
)
UNLISTED = (
    "is on the bus and the driver does not list it: its kernel log says why (dmesg | grep NVRM)"
)

_NVIDIA = "nvidia"
_LENT = frozenset({"vfio-pci", "nvgrace_gpu_vfio_pci", "pci-stub"})
"""Drivers that hand a card on to a virtual machine: it is meant to be away."""


class PciProbe(Source):
    """The bus, from sysfs. Quiet on a machine that has no NVIDIA card."""

    name = "pci"
    period = 60.0
    timeout = 10.0

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._known: dict[str, BusCard] = {}
        """Every card that was on the bus since this agent started, by PCI address."""
        self._gone: frozenset[str] = frozenset()
        self.cards: Kept[tuple[BusCard, ...]] = Kept(clock)

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        return self.cards.age

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add what is wrong with cards on the bus, to the device where the driver lists one."""
        on_bus = self.cards.last
        if on_bus is None or inventory.devices is None:
            return inventory
        listed = card_uuids(inventory)
        gone = {listed[pci]: (GONE,) for pci in self._gone if pci in listed}
        return with_warnings(with_unhealthy(inventory, gone), tuple(self._warnings(on_bus, listed)))

    async def read(self) -> str:
        """Read which cards there are and whether each still answers."""
        on_bus = tuple(
            card for card in cards(read_live(self._files, DEVICES, WANTED)) if not self._part(card)
        )
        there = {card.pci: card for card in on_bus}
        self._known |= there
        silent = {pci for pci, card in there.items() if self._silent(card)}
        self._gone = frozenset({*silent, *(self._known.keys() - there.keys())})
        self.cards.put(on_bus)
        if not self._known:
            return "no NVIDIA cards on the bus"
        words = _counted(on_bus)
        return f"{words}, {len(self._gone)} gone" if self._gone else words

    def _warnings(
        self, on_bus: Sequence[BusCard], listed: Mapping[str, str]
    ) -> Iterator[NodeWarning]:
        for pci in sorted(self._gone - listed.keys()):
            yield NodeWarning(subject="gpu", words=f"the card at {pci} is {GONE}")
        left = [card for card in on_bus if card.pci not in self._gone and card.driver not in _LENT]
        undriven = [card for card in left if card.driver != _NVIDIA]
        if undriven:
            yield NodeWarning(subject="gpu", words=_undriven(undriven))
        driven = [card for card in left if card.driver == _NVIDIA and card.pci not in listed]
        if driven and not listed:
            words = (
                f"{_counted(driven)} and the driver loaded, but its library and nvidia-smi "
                "are not there or do not answer: install the driver's tools"
            )
            yield NodeWarning(subject="gpu", words=words)
        for card in driven if listed else ():
            yield NodeWarning(subject="gpu", words=f"the card at {card.pci} {UNLISTED}")

    def _part(self, card: BusCard) -> bool:
        """Say whether it is a virtual function of a card, not a card."""
        return bool(self._files.names(DEVICES / card.address / "physfn"))

    def _silent(self, card: BusCard) -> bool:
        """Say whether a card reads as all ones; one that sleeps is not woken for it."""
        directory = DEVICES / card.address
        try:
            if self._files.read(directory / "power/runtime_status").strip() == b"suspended":
                return False
        except (NotFound, OSError):
            pass
        try:
            return self._files.read_part(directory / "config", 0, 4) == b"\xff\xff\xff\xff"
        except (NotFound, OSError):
            return False


def _undriven(found: Sequence[BusCard]) -> str:
    drivers = sorted({card.driver for card in found if card.driver is not None})
    if not drivers:
        return f"{_counted(found)} and no driver: install NVIDIA's driver, or modprobe nvidia"
    return (
        f"{_counted(found)} driven by {', '.join(drivers)}, which engines can't use: "
        "install NVIDIA's driver and reboot"
    )


def _counted(found: Sequence[BusCard]) -> str:
    return f"{len(found)} NVIDIA {'card' if len(found) == 1 else 'cards'} on the bus"
