"""What the system refuses, in words for people."""

import errno
import os
import resource

_UNKNOWN_TO_UVLOOP = -1
"""The number with which uvloop's subprocesses fail where no pipe can be made."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def takes_no_more(error: OSError) -> bool:
    """Say whether a disk or a device takes nothing more: no program can do anything about that."""
    return error.errno in _FULL


def system_words(error: OSError) -> str:
    """Return why the system refused something; of too many open files, how many may be."""
    if error.errno in (errno.EMFILE, _UNKNOWN_TO_UVLOOP):
        return f"too many open files (limit {resource.getrlimit(resource.RLIMIT_NOFILE)[0]})"
    if error.errno == errno.ENFILE:
        return "too many open files on this machine"
    words = error.strerror or str(error)
    if error.errno is not None and error.strerror is None:
        words = os.strerror(error.errno)
    return f"{_text(error.filename)}: {words}" if error.filename else words


def _text(name: object) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
