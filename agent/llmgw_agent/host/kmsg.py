"""/dev/kmsg: the kernel log, record by record, without ever waiting for the next one.

Format and errors: kernel documentation, ABI/testing/dev-kmsg.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from llmgw.base.errors import NotFound, Refused, Unreadable

DEVICE = Path("/dev/kmsg")

_RECORD_MOST = 16384
"""Bytes; a longer record than the kernel makes (8 KiB with its escapes)."""


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
            if any(part in record for part in self._wanted):
                found.append(record.decode(errors="replace"))
        return "".join(found)

    def close(self) -> None:
        """Let go of the device; a further reading begins at the boot again."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle = None

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
