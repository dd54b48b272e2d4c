"""/dev/kmsg: the kernel log, record by record, without ever waiting for the next one.

Format and errors: kernel documentation, ABI/testing/dev-kmsg.
"""

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path

from llmgw.base.errors import NotFound, Refused, Unreadable

DEVICE = Path("/dev/kmsg")

_RECORD_MOST = 16384
"""Bytes; a longer record than the kernel makes (8 KiB with its escapes)."""

_NUMBER = re.compile(rb"\d{1,5},(\d{1,19}),")
"""Of a record, behind its priority: it grows by one with each record of the boot."""


class Kmsg:
    """The records from the boot on, each once. Opened by the first reading.

    Args:
        wanted: a record without one of these parts is left out.
        device: where they are read.
    """

    def __init__(self, wanted: Sequence[bytes], device: Path = DEVICE) -> None:
        self._wanted = tuple(wanted)
        self._device = device
        self._handle: int | None = None
        self.last = -1
        """Number of the last record that was read; records up to it are not read again."""
        self.at_end = False
        """Whether the last reading came to the newest record."""

    def read(self, most: int) -> str:
        """Return what is wanted of the next records, a line each, at most `most` looked at.

        Records that the kernel dropped before they were read are lost.

        Raises:
            NotFound: this machine has no such device.
            Refused: this user may not read it.
            Unreadable: the kernel gives an error.
        """
        handle = self._opened()
        found = []
        self.at_end = False
        for _ in range(most):
            record = self._next(handle)
            if record is None:
                self.at_end = True
                break
            if self._is_new(record) and any(part in record for part in self._wanted):
                found.append(record.decode(errors="replace"))
        return "".join(found)

    def close(self) -> None:
        """Let go of the device; a further reading goes on behind the last record."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle = None

    def _is_new(self, record: bytes) -> bool:
        """Note the number of a record; one that none is told of is new."""
        match = _NUMBER.match(record)
        if match is None:
            return True
        before, self.last = self.last, max(self.last, int(match[1]))
        return self.last > before

    def _opened(self) -> int:
        if self._handle is None:
            try:
                self._handle = os.open(self._device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except FileNotFoundError as error:
                raise NotFound(f"{self._device}: no such device") from error
            except PermissionError as error:
                raise Refused(f"{self._device}: this user may not read it") from error
            except OSError as error:
                raise Unreadable(f"{self._device}: {error.strerror}") from error
        return self._handle

    def _next(self, handle: int) -> bytes | None:
        """Return the next record, empty for ones that are lost; None when there is none yet."""
        try:
            # A file, which stands in for the device in a test, ends with nothing.
            return os.read(handle, _RECORD_MOST) or None
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno == errno.EPIPE:
                return b""
            self.close()
            raise Unreadable(f"{self._device}: {error.strerror}") from error
