"""What is known of driver errors, kept from one start of the agent to the next.

A kernel log tells a boot's errors again to whoever reads it anew, and not that a card was reset
since. What showed that is gone by then: a counter that fell, a driver that asked for nothing more.
"""

from pathlib import Path

import msgspec

from llmgw.base.errors import LlmgwError, NotFound
from llmgw.base.log import get
from llmgw.model.record import Record
from llmgw_agent.host.helper import Helper
from llmgw_agent.host.small_file import FileText, ReadFile, WriteFile, Written

log = get(__name__)

FILE = "driver-errors.json"
"""Its name in the agent's state directory."""

_SILENCE = 5.0


class FaultKept(Record, frozen=True, kw_only=True):
    """One kind of error of one card; see `xid_book`."""

    pci: str
    code: int
    order: int
    heard: float
    """Monotonic seconds, which begin with the boot."""
    count: int
    first: float | None = None
    last: float | None = None
    action: str | None = None
    words: str | None = None
    over: bool = False
    while_loading: bool = False


class CountersKept(Record, frozen=True, kw_only=True):
    """Counters of a card that start anew with a reset."""

    pci: str
    since_reset: tuple[int | None, ...]


class BookKept(Record, frozen=True, kw_only=True):
    """All that a `xid_book.XidBook` knows."""

    loaded: int = 0
    faults: tuple[FaultKept, ...] = ()
    counters: tuple[CountersKept, ...] = ()


class XidsKept(Record, frozen=True, kw_only=True):
    """A book of one boot, as it is after all that a log tells up to a place in it."""

    boot: str
    """The kernel's own id of the boot: nothing of this is true in another."""
    source: str
    """Whose log it was: another one has other places."""
    position: str
    book: BookKept


class XidMemory:
    """The file with what is known.

    Args:
        path: where it lies.
        helper: reads and writes it (`host.small_file_side`); it runs only meanwhile.
        writes: whether it is written; else it is only read.
    """

    def __init__(self, path: Path, helper: Helper, *, writes: bool = True) -> None:
        self._path = path
        self._helper = helper
        self._writes = writes
        self._kept: XidsKept | None = None
        self._failed = False
        self._damaged = False

    async def recall(self, boot: str) -> XidsKept | None:
        """Return what was kept of this boot; None where nothing was, or it can't be read."""
        try:
            request = ReadFile(path=str(self._path))
            text = (await self._helper.ask(request, FileText, silence=_SILENCE)).text
            kept = msgspec.json.decode(text, type=XidsKept)
        except NotFound:
            return None
        except (LlmgwError, msgspec.DecodeError) as error:
            log.warning(
                "what was known of driver errors can't be read: those of this boot count anew",
                path=str(self._path),
                error=str(error),
            )
            self._damaged = True
            return None
        finally:
            await self._helper.close()
        self._kept = kept if kept.boot == boot else None
        return self._kept

    async def keep(self, news: XidsKept) -> None:
        """Write what is known, if it is another than before. That it fails is logged once."""
        before = self._kept
        if not self._writes or (before is not None and _same(before, news)):
            return
        if before is None and news.book == BookKept() and not self._damaged:
            return  # most machines never have an error to keep
        try:
            request = WriteFile(path=str(self._path), text=msgspec.json.encode(news).decode())
            await self._helper.ask(request, Written, silence=_SILENCE)
        except LlmgwError as error:
            if not self._failed:
                log.warning("what is known of driver errors can't be kept", error=error.message)
            self._failed = True
            return
        finally:
            await self._helper.close()
        self._kept, self._failed = news, False

    async def close(self) -> None:
        """End the helper."""
        await self._helper.close()


def _same(before: XidsKept, news: XidsKept) -> bool:
    """Say whether nothing else is known: what a log told since then was of no matter."""
    return (before.boot, before.source, before.book) == (news.boot, news.source, news.book)
