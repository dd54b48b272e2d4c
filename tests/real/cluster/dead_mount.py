"""A mount that does not answer: a FUSE filesystem whose server never says a word."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MNT_DETACH = 2


@contextmanager
def dead_mount(place: Path) -> Iterator[Path]:
    """Mount it; whoever asks for its space hangs in the kernel until it is gone.

    Raises:
        OSError: this user may not mount, or the kernel has no FUSE.
    """
    place.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    server = os.open("/dev/fuse", os.O_RDWR)
    try:
        options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
        if libc.mount(b"dead", os.fsencode(place), b"fuse", 0, options) != 0:
            raise OSError(ctypes.get_errno(), "mount")
        try:
            yield place
        finally:
            libc.umount2(os.fsencode(place), _MNT_DETACH)
    finally:
        # Closed, everybody who hangs is told that the filesystem is not connected.
        os.close(server)
