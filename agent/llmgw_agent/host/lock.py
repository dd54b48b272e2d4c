"""Locks between processes that end with the process that holds them (flock)."""

import fcntl
import os
from pathlib import Path

from llmgw.base.errors import Refused


class HeldLock:
    """A lock that this process holds until `release`, or until it ends."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def release(self) -> None:
        """Let go. The file stays: removing it would let two processes hold one lock each."""
        os.close(self._handle)


def try_lock(path: Path, note: str = "") -> HeldLock | None:
    """Take the lock, or return None when another process holds it.

    Args:
        path: the lock file; made when it is not there.
        note: written into it, for whoever finds it held.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    os.ftruncate(handle, 0)
    os.write(handle, note.encode())
    return HeldLock(handle)


def only_one(path: Path, what: str) -> HeldLock:
    """Take the lock of something that may run once.

    Raises:
        Refused: another process holds it; the message names its pid where it wrote one.
    """
    held = try_lock(path, f"{os.getpid()}\n")
    if held is not None:
        return held
    pid = path.read_text(errors="replace").strip()
    raise Refused(
        f"another {what} runs on {path.parent}" + (f" (pid {pid})" if pid.isdigit() else ""),
        hint="end it first, or give this one a state directory of its own",
    )
