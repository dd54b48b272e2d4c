"""Commands that end with this process, however it ends: by SIGKILL, and while they are stopped too.

The kernel does it (prctl PR_SET_PDEATHSIG), and it has to be asked by the child itself. Code that
runs between fork and exec can lock up in a program with threads, so the child is a small
interpreter that asks and then becomes the command; about 10 ms. It also looks for the program and
changes the directory: on a filesystem that is dead it is the one that hangs.

The signal comes when the thread that started the child ends: here the event loop's.
"""

import errno
import fcntl
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from llmgw.base.errors import NotFound

NOT_STARTED = 127
"""The exit status of a command that could not be started."""

_PROGRAM = Path(__file__).with_name("tied_program.py")
_ROOM = 64 << 10
"""Bytes that a pipe takes at least."""


@contextmanager
def tied(
    argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Give the command line to start instead, and the handle that it has to inherit.

    Args:
        argv: the command.
        env: its whole environment; None: this process's.
        cwd: where it runs.

    Raises:
        OSError: no pipe can be made, or the command does not fit one.
    """
    variables = os.environ if env is None else env
    parts = ("" if cwd is None else str(cwd), str(len(argv)), *argv)
    pairs = (f"{name}={value}" for name, value in variables.items())
    pipe = _filled(b"\0".join(os.fsencode(part) for part in (*parts, *pairs)))
    try:
        yield (
            (sys.executable, "-I", "-S", "-B", str(_PROGRAM), str(pipe), str(os.getpid())),
            pipe,
        )
    finally:
        os.close(pipe)


def check_started(rc: int, err: bytes, program: str) -> None:
    """Return when a tied command was started.

    Args:
        rc: how it ended.
        err: what it wrote on its standard error.
        program: the command's first word.

    Raises:
        NotFound: there is no such program, or this user may not run it.
        OSError: why it can't be started.
    """
    if rc != NOT_STARTED or not err.startswith(b"\0"):
        return
    number, _, what = err[1:].decode(errors="replace").partition("\0")
    code = int(number)
    if code in (errno.ENOENT, errno.ENOTDIR) and what == program:
        raise NotFound(f"{program}: no such program")
    if code == errno.EACCES and what == program:
        raise NotFound(f"{program}: may not be run by this user")
    raise OSError(code, os.strerror(code), what)


def _filled(data: bytes) -> int:
    """Return the reading end of a pipe that holds the data and has no writer any more."""
    reading, writing = os.pipe()
    try:
        if len(data) > _ROOM:
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, len(data))
        os.set_blocking(writing, False)
        whole = os.write(writing, data) == len(data)
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    if not whole:
        os.close(reading)
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG))
    return reading
