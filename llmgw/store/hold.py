"""Exclusive hold of a store's file: one control plane at a time, however it was started."""

import errno
import fcntl
import os
from pathlib import Path

from llmgw.base.errors import Refused, Unreachable


class Hold:
    """An flock on a file of its own, kept until `release` or the process ends, whatever ends it.

    The lock lies on `<store>.lock` and not on the store, whose own locks belong to SQLite. The
    file is never removed: removing it would let two processes lock two files of one name.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, path: Path, holder: str, pid: int) -> "Hold":
        """Take the lock and write into it who has it.

        Raises:
            Refused: another process has it; names it and its pid.
            Unreachable: the lock can't be made there.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unreachable(path, error) from error
        try:
            _lock(descriptor, path)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{pid} {holder}\n".encode(), 0)
        except OSError as error:
            os.close(descriptor)
            raise _unreachable(path, error) from error
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor)

    def release(self) -> None:
        """Let go; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            raise _held(path, os.pread(descriptor, 400, 0)) from error
        raise
    if not _same_file(descriptor, path):
        raise Refused(f"{path}: was replaced meanwhile", hint="start again")


def _same_file(descriptor: int, path: Path) -> bool:
    mine = os.fstat(descriptor)
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def _held(path: Path, written: bytes) -> Refused:
    pid, _, holder = written.decode(errors="replace").strip().partition(" ")
    who = f"control plane {holder!r} (pid {pid})" if pid.isdecimal() else "another process"
    stop = f"stop it (kill {pid})" if pid.isdecimal() else "stop it"
    store = path.with_suffix("")
    return Refused(
        f"{store}: {who} holds this store",
        hint=f"{stop}, or give this one a state directory of its own with --state-dir",
    )


def _unreachable(path: Path, error: OSError) -> Unreachable:
    return Unreachable(
        f"{path}: can't be locked: {os.strerror(error.errno or 0)}",
        hint=f"make {path.parent} writable for this user, on a filesystem with locks",
    )
