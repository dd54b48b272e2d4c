"""What keys used of their day, on disk: what a gateway that is started again goes on from."""

from pathlib import Path
from typing import Protocol

import msgspec

from llmgw.base.errors import LlmgwError, NotFound
from llmgw.base.log import get
from llmgw.base.world import Files
from llmgw.model.keys import QuotaFigures
from llmgw.model.record import Record

log = get(__name__)

SAVE_EACH = 10
"""Looks between two writings of what survives a restart."""


class KeptQuotas(Record, frozen=True, kw_only=True):
    """What survives a restart of the gateway."""

    at: float
    """Wall-clock seconds."""
    gateways: int
    slices: dict[str, QuotaFigures]
    days: dict[str, tuple[int, ...]]
    """Of each key with tokens per day: what was used since each slot of the day began."""


encode_quotas = msgspec.msgpack.Encoder().encode
decode_quotas = msgspec.msgpack.Decoder(KeptQuotas).decode


class Keeping(Protocol):
    """Whose use and slices are kept."""

    def kept(self) -> KeptQuotas:
        """Return what the next start goes on from."""
        ...

    def restore(self, kept: KeptQuotas) -> None:
        """Go on from what an earlier start kept; before any key is taken."""
        ...


class QuotaBook:
    """Keeps on disk what the next start goes on from; a kill costs the last seconds of the day.

    Args:
        quotas: whose it is.
        path: of the file.
        files: the disk.
    """

    def __init__(self, quotas: Keeping, path: Path, files: Files) -> None:
        self._quotas = quotas
        self._path = path
        self._files = files
        self._looks = 0
        self._written: KeptQuotas | None = None

    def restore(self) -> None:
        """Read what an earlier start kept; a file that can't be read is as none."""
        try:
            self._quotas.restore(decode_quotas(self._files.read(self._path)))
        except NotFound:
            return
        except (msgspec.DecodeError, LlmgwError, OSError) as error:
            log.warning("the kept quotas can't be read", file=str(self._path), why=str(error))

    def save_if_due(self) -> None:
        """Write what changed, each so many calls."""
        self._looks = (self._looks + 1) % SAVE_EACH
        if not self._looks:
            self.save()

    def save(self) -> None:
        """Write what changed; a disk that takes nothing is asked again the next time."""
        kept, written = self._quotas.kept(), self._written
        if written is not None and msgspec.structs.replace(kept, at=written.at) == written:
            return
        try:
            self._files.write(self._path, encode_quotas(kept))
        except OSError as error:
            log.warning("quotas can't be written", file=str(self._path), why=str(error))
            return
        self._written = kept
