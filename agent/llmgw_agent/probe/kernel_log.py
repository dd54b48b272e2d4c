"""NVIDIA's driver errors from the kernel log of this boot."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from llmgw.base.clock import Clock
from llmgw.base.errors import NotFound, Refused, Unreadable
from llmgw.base.world import Files
from llmgw.model.device import DeviceHealth, DeviceSample
from llmgw.model.node import Heartbeat, Inventory, NodeWarning
from llmgw_agent.parse import plausible
from llmgw_agent.parse.kernel_log import LogReader
from llmgw_agent.parse.log_lines import LogTime
from llmgw_agent.probe.kept import Kept
from llmgw_agent.probe.log_sources import LogSource
from llmgw_agent.probe.merging import card_uuids, with_health, with_unhealthy, with_warnings
from llmgw_agent.probe.source import Source
from llmgw_agent.probe.xid_book import CardSigns, XidBook
from llmgw_agent.probe.xid_memory import XidMemory, XidsKept

HOW_TO_LET = (
    "run the agent as root, set the sysctl kernel.dmesg_restrict to 0, "
    "or add its user to the group adm"
)

_AT_ONCE = 16 << 10
"""Characters of a log that are read while nothing else runs."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_REFUSED = 60.0
"""Seconds between two tries to find a log that may be read."""


class KernelLogProbe(Source):
    """The errors of each card since the boot; asked after the source of the cards' reports.

    Args:
        sources: where the log can be read, the best first.
        files: reads how long the machine is up.
        clock: the time.
        memory: what an earlier start of the agent knew; None: nothing is kept.
    """

    name = "kernel-log"
    timeout = 60.0

    def __init__(
        self,
        sources: Sequence[LogSource],
        files: Files,
        clock: Clock,
        memory: XidMemory | None = None,
    ) -> None:
        self._sources = tuple(sources)
        self._files = files
        self._clock = clock
        self._source: LogSource | None = None
        self._reader = LogReader()
        self._book = XidBook()
        self._cards: Mapping[str, str] = {}
        """UUIDs of the cards that the driver lists, by PCI address."""
        self._without_cards = False
        """Nothing was read, and that is no error as long as there are no cards."""
        self._read: Kept[XidBook] = Kept(clock)
        self._memory = memory
        self._boot: str | None = None
        self._earlier: XidsKept | None = None
        """What an earlier start knew; None once it is taken, or of no use."""
        self._recalled = False
        self._unkept = False
        """It was learnt that an error is over, and not kept yet."""

    @property
    def period(self) -> float:
        """Return the seconds between two readings: without cards it is asked seldom."""
        if self._source is None:
            return _REFUSED
        return self._source.period if self._cards else self._source.period_without_cards

    @property
    def again(self) -> float:
        """Return the seconds between two tries while it fails: a refusal lasts."""
        return _REFUSED if self._source is None else super().again

    @property
    def outdated(self) -> bool:
        """Say whether cards' errors could not be read, or what was learnt has to be kept."""
        blind = self._without_cards and bool(self._cards)
        return blind or (self._unkept and self._memory is not None)

    @property
    def age(self) -> float | None:
        """Return the seconds since the last reading."""
        return self._read.age

    def onto_inventory(self, inventory: Inventory) -> Inventory:
        """Add why nothing may be placed on a card, and errors of cards that nobody lists."""
        if inventory.devices is not None:
            self._cards = card_uuids(inventory)
            self._book.hold(self._cards)
        if self._read.last is None:
            return inventory
        reasons = {uuid: self._book.reasons(pci) for pci, uuid in self._cards.items()}
        listed = with_unhealthy(inventory, reasons)
        return listed if inventory.devices is None else with_warnings(listed, self._unlisted())

    def onto_heartbeat(self, heartbeat: Heartbeat) -> Heartbeat:
        """Add the errors of each card, and learn from the rest whether a card was reset."""
        now = self._clock.monotonic()
        samples = {sample.uuid: sample for sample in heartbeat.devices or ()}
        health = {one.uuid: one for one in heartbeat.health or ()}
        for pci, uuid in self._cards.items():
            signs = _signs(health.get(uuid), samples.get(uuid), now)
            if signs is not None:
                self._unkept |= self._book.learn(pci, signs)
        if self._read.fresh is None:
            return heartbeat
        told = {
            uuid: DeviceHealth(
                uuid=uuid,
                xids=self._book.xids(pci),
                # It is that of the card's other readings: the log says nothing of how those are.
                age=self.age if uuid in health and health[uuid].age is not None else None,
            )
            for pci, uuid in self._cards.items()
        }
        return with_health(heartbeat, told)

    async def read(self) -> str:
        """Read what the kernel wrote since the last reading, from the boot on at first.

        Raises:
            LlmgwError: it can't be read, or tells of more errors than are kept.
        """
        await self._recall()
        self._without_cards = False  # also when it is refused now: that is an error, with cards
        pieces = await self._news()
        self._without_cards = pieces is None
        if pieces is None:
            return "the kernel log can't be read, and there are no NVIDIA cards"
        booted, heard = self._booted(), self._clock.monotonic()
        for piece in (part for whole in pieces for part in _parts(whole)):
            for event in self._reader.read(piece):
                self._book.take(event, _at(event.when, booted), heard)
            # A boot's log may have a hundred thousand lines: others run between them.
            await asyncio.sleep(0)
        self._read.put(self._book)
        self._unkept = False
        await self._keep()
        if self._book.left_out is not None:
            raise Unreadable(f"{self._sentence()}; {self._book.left_out}")
        return self._sentence()

    async def close(self) -> None:
        """Let go of the log."""
        for source in self._sources:
            source.close()
        if self._memory is not None:
            await self._memory.close()

    async def _recall(self) -> None:
        """Find out, once, what an earlier start knew, and where the log goes on."""
        if self._recalled:
            return
        self._boot = self._boot_id()
        if self._memory is not None and self._boot is not None:
            self._earlier = await self._memory.recall(self._boot)
        self._recalled = True
        for source in self._sources:
            if self._earlier is not None and source.name == self._earlier.source:
                source.resume(self._earlier.position)

    def _found(self, source: LogSource) -> None:
        """Keep to a source, with what was known of what it told before."""
        self._source = source
        earlier, self._earlier = self._earlier, None
        if earlier is not None and source.name == earlier.source:
            self._book.restore(earlier.book, self._clock.monotonic())

    async def _keep(self) -> None:
        """Keep what is known now for the next start."""
        if self._memory is None or self._boot is None or self._source is None:
            return
        position, book = self._source.position, self._book.kept()
        if position is None or book is None:
            return
        kept = XidsKept(boot=self._boot, source=self._source.name, position=position, book=book)
        await self._memory.keep(kept)

    def _boot_id(self) -> str | None:
        try:
            text = self._files.read(_BOOT_ID).decode(errors="replace").strip()
        except (NotFound, OSError):
            return None
        return text or None

    async def _news(self) -> tuple[str, ...] | None:
        """Return further text; None where nothing can be read and nobody misses it.

        A source that was read from is kept to: another one would tell the boot again.

        Raises:
            LlmgwError: why the log can't be read.
        """
        if self._source is not None:
            return await self._source.news()
        refusals = []
        for source in self._sources:
            try:
                pieces = await source.news()
            except (NotFound, Refused) as error:
                refusals.append(error.message)
            else:
                self._found(source)
                return pieces
        if not self._cards:
            return None
        raise Refused(
            f"driver errors are not known: {'; '.join(refusals)}. To see them {HOW_TO_LET}"
        )

    def _booted(self) -> float | None:
        """Return when the machine started, in seconds since the epoch; None: not known."""
        try:
            text = self._files.read(Path("/proc/uptime")).decode(errors="replace")
            up = plausible.up(float(text.split()[0]))
        except (NotFound, OSError, ValueError, IndexError):
            return None
        return None if up is None else self._clock.now() - up

    def _unlisted(self) -> tuple[NodeWarning, ...]:
        return tuple(
            NodeWarning(
                subject="gpu", words=f"the card at {pci}, not listed by the driver: {words}"
            )
            for pci in self._book.lasting()
            if pci not in self._cards
            for words in self._book.reasons(pci)
        )

    def _sentence(self) -> str:
        source = "the kernel log" if self._source is None else self._source.name
        cards = len(self._book.lasting())
        if not cards:
            return f"{source}: no card needs anything"
        return f"{source}: {cards} {'card needs' if cards == 1 else 'cards need'} somebody"


def _parts(text: str) -> Iterator[str]:
    """Return a text in parts of whole lines, each read in a few milliseconds."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _AT_ONCE) + 1 or len(text)
        yield text[start:end]
        start = end


def _at(when: LogTime, booted: float | None) -> float | None:
    if when.at is not None:
        return when.at
    return None if when.since_boot is None or booted is None else booted + when.since_boot


def _signs(
    health: DeviceHealth | None, sample: DeviceSample | None, now: float
) -> CardSigns | None:
    """Return what a card's report says of a reset; None where there is no report."""
    if health is None or health.age is None:
        return None
    replays = None if sample is None else sample.pcie_replays
    if replays is None and health == DeviceHealth(uuid=health.uuid, age=health.age):
        return None  # of a report that is too old nothing but its age is told
    return CardSigns(
        read_at=now - health.age,
        since_reset=(
            health.ecc_corrected_volatile,
            health.ecc_uncorrected_volatile,
            replays,
        ),
        remap_pending=health.remap_pending,
        recovery_action=health.recovery_action,
    )
