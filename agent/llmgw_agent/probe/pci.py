"""NVIDIA cards on the bus beside those that the driver lists: what is there, and what is gone."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from llmgw.base.clock import Clock
from llmgw.base.errors import LlmgwError, Unreadable
from llmgw.base.world import Files
from llmgw.model.node import Inventory, NodeWarning
from llmgw_agent.host.helper import Helper
from llmgw_agent.host.tree import LARGEST, Tree, TreeOf, read_live
from llmgw_agent.parse.pci_bus import VENDORS, BusCard, cards, nvidia
from llmgw_agent.parse.plausible import MOST_CARDS
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

_PART = "physfn/vendor"
"""There for a virtual function of a card, which is no card."""
_SLEEP = "power/runtime_status"
_OF_A_CARD = ("uevent", _SLEEP, _PART)
_ID_BYTES = 4
"""Vendor and device, with which a card's configuration begins."""
_ALL_ONES = "\ufffd" * _ID_BYTES
"""Four bytes of ones as text: none of them is any character's."""
_SILENCE = 5.0
_NVIDIA = "nvidia"
_LENT = frozenset({"vfio-pci", "nvgrace_gpu_vfio_pci", "pci-stub"})
"""Drivers that hand a card on to a virtual machine: it is meant to be away."""


class PciProbe(Source):
    """The bus, from sysfs. Quiet on a machine that has no NVIDIA card.

    The kernel remembers a device's vendor. To tell of its driver it waits for whoever holds the
    device, and to tell what a card says it asks the card: a helper process does that.

    Args:
        files: reads the vendors.
        helper: a tree helper (`host.tree_side`).
        clock: the time.
    """

    name = "pci"
    period = 60.0
    timeout = 60.0

    def __init__(self, files: Files, helper: Helper, clock: Clock) -> None:
        self._files = files
        self._helper = helper
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
        """Read which cards there are and whether each still answers.

        Raises:
            LlmgwError: which cards there are, or whether one of them answers, could not be read.
        """
        facts = await self._facts()
        on_bus = tuple(c for c in cards(facts) if f"{c.address}/{_PART}" not in facts)
        there = {card.pci: card for card in on_bus}
        gone = {pci: card for pci, card in self._known.items() if pci not in there}
        self._known = {**dict([*gone.items()][-MOST_CARDS:]), **there}
        self._gone &= there.keys()
        self._gone |= self._known.keys() - there.keys()
        troubles = [words for card in on_bus if (words := await self._listen(card, facts))]
        self.cards.put(on_bus)
        if troubles:
            raise Unreadable("; ".join(troubles))
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

    async def close(self) -> None:
        """End the helper."""
        await self._helper.close()

    async def _facts(self) -> Mapping[str, str]:
        """Return what the kernel tells of NVIDIA's devices, by path below `DEVICES`."""
        found = nvidia(read_live(self._files, DEVICES, VENDORS))
        wanted = tuple(f"{address}/{name}" for address in found for name in _OF_A_CARD)
        return await self._ask(wanted) if wanted else {}

    async def _listen(self, card: BusCard, facts: Mapping[str, str]) -> str | None:
        """Note whether a card reads as all ones; return what went wrong, in words.

        One that sleeps is not woken for it. Of one whose answer never comes, what was known stays.
        """
        if facts.get(f"{card.address}/{_SLEEP}") == "suspended":
            self._gone -= {card.pci}
            return None
        config = f"{card.address}/config"
        try:
            said = (await self._ask((config,), most=_ID_BYTES)).get(config)
        except LlmgwError as error:
            return f"{card.address}: {error.message}"
        self._gone = self._gone | {card.pci} if said == _ALL_ONES else self._gone - {card.pci}
        return None

    async def _ask(self, wanted: tuple[str, ...], most: int = LARGEST) -> Mapping[str, str]:
        request = TreeOf(root=str(DEVICES), wanted=wanted, most=most)
        return (await self._helper.ask(request, Tree, silence=_SILENCE)).files


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
