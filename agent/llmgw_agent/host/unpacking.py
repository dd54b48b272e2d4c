"""The body of an HTTP answer, decompressed no further than it may be long."""

import zlib

from llmgw.base.errors import Unreadable

_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
"""What zlib has to be told of each encoding (RFC 9110, 8.4.1)."""


class Unpacking:
    """Takes a body in pieces, as it was sent.

    Args:
        encoding: the header `content-encoding`.
        most: bytes, decompressed.
    """

    def __init__(self, encoding: str, most: int) -> None:
        self._encoding = encoding.strip().lower()
        self._most = most
        self._left = most
        self._pieces: list[bytes] = []
        window = _WINDOWS.get(self._encoding)
        self._zlib = None if window is None else zlib.decompressobj(window)
        self._known = self._zlib is not None or self._encoding in ("", "identity")

    def take(self, piece: bytes) -> None:
        """Take the next piece.

        Raises:
            Unreadable: it is too long by now, or not compressed as it says.
        """
        if not self._known:
            raise Unreadable(f"answered in {self._encoding[:40]!r}, which was not asked for")
        if self._zlib is not None:
            try:
                piece = self._zlib.decompress(piece, self._left + 1)
            except zlib.error as error:
                raise Unreadable(f"its {self._encoding} can't be read: {error}") from error
        self._left -= len(piece)
        if self._left < 0:
            raise Unreadable(f"answered more than {self._most / (1 << 20):g} MiB: cut off")
        self._pieces.append(piece)

    def whole(self) -> bytes:
        """Return the body.

        Raises:
            Unreadable: it breaks off.
        """
        if self._zlib is not None and self._pieces and not self._zlib.eof:
            raise Unreadable(f"its {self._encoding} breaks off")
        return b"".join(self._pieces)
