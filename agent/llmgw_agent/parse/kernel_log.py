"""NVIDIA's driver errors (XIDs) in a kernel log, and what ends them.

The lines are those of the open kernel modules (`krcReportXid`, `nvErrorLog`):
`NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s …`; older drivers
leave out `PCI:`, and MIG adds ` GPU-I:05 GPU-CI:00`. A card that is gone when the driver looks for
it is told in three lines without a number.
"""

import re
from collections.abc import Iterator

from llmgw.model.record import Record
from llmgw_agent.parse.log_lines import LogTime, read_line
from llmgw_agent.parse.pci import pci_key
from llmgw_agent.parse.tool import Tool
from llmgw_agent.parse.xid_table import FALLEN_OFF_THE_BUS, RECOVERY_ACTION_CHANGED, meaning

_PCI = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
_XID = re.compile(
    rf"NVRM: Xid \((?:PCI:)?(?P<pci>{_PCI})(?: GPU-I:(?P<instance>\d{{1,4}}))?[^)]*\):"
    r" (?P<code>\d{1,5})\b,? ?(?P<rest>.*)"
)
_NUMBER = re.compile(r"\d{1,10}", re.ASCII)
_PID = re.compile(r"pid='?(?P<pid>[^',]*)'?(?:, |\Z)")
_NAME = re.compile(r"name=(?P<name>.*?)(?:, |\Z)")
_FATAL = re.compile(r"\b(?P<fatal>Fatal|Non-?fatal)\b", re.IGNORECASE)
_RECOVERY = re.compile(r"changed from .*? to 0x[0-9a-fA-F]+ \((?P<now>[^)]*)\)")
_LOADED = re.compile(r"NVRM: loading NVIDIA UNIX.*?\s(?P<version>\d+\.\d+(?:\.\d+)?)\b")
_NAMED = re.compile(rf"NVRM: The NVIDIA GPU (?P<pci>{_PCI})")
_IDENTIFIED = re.compile(rf"NVRM: GPU at (?:PCI:)?(?P<pci>{_PCI}): (?P<uuid>GPU-[0-9a-f-]+)")
_FOUND = re.compile(rf"pci (?P<pci>{_PCI}): \[10de:[0-9a-f]{{4}}\] type \d+ class 0x03")
_ADDRESS = re.compile(rf"(?<![\w.]){_PCI}(?!\w)")

_FALLEN = "fallen off the bus"
_NAMED_FOR = 3
"""Lines of the driver for which a card that it named is the one that it speaks of."""
_MOST_CARDS = 256
_LONGEST = 16384
"""Characters of a line: a record of the kernel is no longer."""


class XidEvent(Record, frozen=True, kw_only=True, tag_field="kind", tag="xid"):
    """One error. Which card it is of is told by `pci` (`parse.pci.pci_key`)."""

    code: int
    """NVIDIA's number of it; 79 for a card that is gone, also where no number is told."""
    pci: str
    gpu_instance: int | None = None
    """The MIG instance that it is of; None: the whole card."""
    pid: int | None = None
    process: str | None = None
    when: LogTime
    text: str
    """The driver's own words."""
    recovery: str | None = None
    """XID 154: what the driver asks for now, in its words: `None`, `GPU Reset Required` …"""
    words: str | None = None
    """What it means; None: nobody knows."""
    action: str | None = None
    """What it asks for; see `model.device.Xid`."""
    while_loading: bool = False
    """The driver found it while it was being loaded: the line that it is loaded comes after."""


class DriverLoaded(Record, frozen=True, kw_only=True, tag_field="kind", tag="driver_loaded"):
    """The driver was loaded: what was wrong with a card under the one before is over."""

    version: str | None = None
    when: LogTime


class CardAttached(Record, frozen=True, kw_only=True, tag_field="kind", tag="card_attached"):
    """The kernel found a card on the bus, or the driver took hold of it anew.

    The driver names a card by its UUID once each time it takes hold of it (`bGpuUuidLoggedOnce`),
    before its first error.
    """

    pci: str
    uuid: str | None = None
    when: LogTime


_DRIVER = "NVRM: "

LogEvent = XidEvent | DriverLoaded | CardAttached


class LogReader:
    """Reads a log piece by piece: what a line means may depend on those before it.

    Other parts of the kernel repeat what any user tells them, line ends too. So further lines of a
    message are taken only where its first one is the driver's, and nothing that a program wrote
    into the log itself.
    """

    def __init__(self) -> None:
        self._timed = False
        self._drivers = False
        """The last message with a time is the driver's."""
        self._named: tuple[str, LogTime] | None = None
        self._named_for = 0
        self._fallen: dict[str, bool] = {}
        """The cards that are gone; whether that was told with its number."""

    def read(self, text: str) -> tuple[LogEvent, ...]:
        """Return what further text of the log tells, in its order."""
        lines = (line for line in text.split("\n") if line.strip())
        return tuple(event for line in lines for event in self._line(line))

    def _line(self, line: str) -> Iterator[LogEvent]:
        whole = read_line(line[:_LONGEST].rstrip("\r"))
        first, *further = whole.text.split("\n")
        drivers = whole.by_kernel and first.startswith(_DRIVER)
        if whole.when != LogTime():
            self._timed, self._drivers = True, drivers
        elif self._timed and not self._drivers:
            return
        if not whole.by_kernel:
            return
        for part in (first, *further) if drivers else (first,):
            text = part.strip()
            if not text.startswith((_DRIVER, "pci ")):
                continue
            event = self._event(text, whole.when)
            if event is not None:
                yield event

    def _event(self, text: str, when: LogTime) -> LogEvent | None:
        if (xid := _XID.match(text)) is not None:
            return self._numbered(xid, when)
        if _FALLEN in text:
            return self._unnumbered(text, when)
        if (loaded := _LOADED.match(text)) is not None:
            self._fallen.clear()
            return DriverLoaded(version=loaded["version"], when=when)
        seen = _IDENTIFIED.match(text) or _FOUND.match(text)
        if seen is not None and (pci := pci_key(seen["pci"])) is not None:
            self._fallen.pop(pci, None)
            return CardAttached(pci=pci, uuid=seen.groupdict().get("uuid"), when=when)
        self._remember(text, when)
        return None

    def _numbered(self, xid: re.Match[str], when: LogTime) -> XidEvent | None:
        pci, code = pci_key(xid["pci"]), int(xid["code"])
        if pci is None or (code == FALLEN_OFF_THE_BUS and self._told(pci, numbered=True)):
            return None
        pid, process, text = _process(xid["rest"])
        fatal = None if (said := _FATAL.search(text)) is None else said["fatal"].lower() == "fatal"
        recovery = _recovery(text) if code == RECOVERY_ACTION_CHANGED else None
        words, action = meaning(code, fatal=fatal, recovery=recovery)
        return XidEvent(
            code=code,
            pci=pci,
            gpu_instance=None if xid["instance"] is None else int(xid["instance"]),
            pid=pid,
            process=process,
            when=when,
            text=text,
            recovery=recovery,
            words=words,
            action=action,
        )

    def _unnumbered(self, text: str, when: LogTime) -> XidEvent | None:
        """Read a card that is gone where no number is told: of a line of its own, or of three."""
        found, loading = _ADDRESS.search(text), False
        address = None if found is None else found[0]
        if address is None and self._named is not None:
            (address, when), loading = self._named, True
        pci = pci_key(address)
        if pci is None or self._told(pci, numbered=False):
            return None
        words, action = meaning(FALLEN_OFF_THE_BUS)
        return XidEvent(
            code=FALLEN_OFF_THE_BUS,
            pci=pci,
            when=when,
            text=text.removeprefix("NVRM: "),
            words=words,
            action=action,
            while_loading=loading,
        )

    def _told(self, pci: str, *, numbered: bool) -> bool:
        """Note that a card is gone; return whether the same event was told before.

        Each line with a number is an event, but for one that repeats the line without.
        """
        before = self._fallen.get(pci)
        if len(self._fallen) < _MOST_CARDS or before is not None:
            self._fallen[pci] = numbered or bool(before)
        return before is not None if not numbered else before is False

    def _remember(self, text: str, when: LogTime) -> None:
        if (named := _NAMED.match(text)) is not None:
            self._named, self._named_for = (named["pci"], when), _NAMED_FOR
        elif self._named_for > 0:
            self._named_for -= 1
        else:
            self._named = None


def read(text: str) -> tuple[LogEvent, ...]:
    """Return the errors of a kernel log and what ends them, in its order.

    What it does not know is left out: a log without NVIDIA's lines tells nothing, and is no error.
    """
    return LogReader().read(text)


def _process(rest: str) -> tuple[int | None, str | None, str]:
    """Return pid, name and what is left; the first two None where the driver does not know them."""
    pid = name = None
    if (found := _PID.match(rest)) is not None:
        rest = rest[found.end() :]
        pid = int(found["pid"]) if _NUMBER.fullmatch(found["pid"]) else None
    if (found := _NAME.match(rest)) is not None:
        rest = rest[found.end() :]
        name = found["name"] if found["name"] not in {"", "<unknown>"} else None
    return pid, name, rest


def _recovery(text: str) -> str | None:
    found = _RECOVERY.search(text)
    return None if found is None else found["now"]


TOOLS = (
    Tool(
        name="xid",
        how="dmesg --kernel --time-format=iso",
        read=read,
    ),
)
