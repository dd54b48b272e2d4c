"""A long text in pieces, and the same compressed: once, however many ask for it."""

import asyncio
import zlib
from collections.abc import Sequence

_FASTEST = 1
_GZIP_FORMAT = 31


class Text:
    """A text that several are sent.

    Attributes:
        pieces: the text.
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = tuple(pieces)
        self._packed: tuple[bytes, ...] | None = None
        self._packing = asyncio.Lock()

    async def packed(self) -> tuple[bytes, ...]:
        """Return it as gzip, in pieces. Made in a thread, where zlib holds nobody up."""
        async with self._packing:
            if self._packed is None:
                self._packed = await asyncio.to_thread(_pack, self.pieces)
            return self._packed


def _pack(pieces: Sequence[bytes]) -> tuple[bytes, ...]:
    packing = zlib.compressobj(_FASTEST, zlib.DEFLATED, _GZIP_FORMAT)
    found = [data for piece in pieces if (data := packing.compress(piece))]
    return (*found, packing.flush())
