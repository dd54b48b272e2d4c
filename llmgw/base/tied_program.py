"""Becomes another program that ends with the process that started it.

Run by `llmgw.base.tied` in an interpreter of its own, so it is named by its path and never
imported. Its arguments are a pipe that holds the command, and the pid of whoever started it.
"""

import ctypes
import os
import sys
from signal import SIG_DFL, SIGKILL, SIGPIPE, SIGXFSZ, signal

PR_SET_PDEATHSIG = 1
NOT_STARTED = 127
"""As `llmgw.base.tied` knows it."""


def main() -> None:
    """Ask the kernel for SIGKILL at the parent's end, then become the command."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    pipe, parent = (int(argument) for argument in sys.argv[1:3])
    if os.getppid() != parent:
        # It ended before it could be tied to.
        os._exit(NOT_STARTED)
    with open(pipe, "rb") as told:  # noqa: PTH123 (a handle, no path)
        parts = [os.fsdecode(part) for part in told.read().split(b"\0")]
    directory, count, *rest = parts
    argv, variables = rest[: int(count)], rest[int(count) :]
    # This interpreter ignores them, and what is ignored stays so for the program.
    signal(SIGPIPE, SIG_DFL)
    signal(SIGXFSZ, SIG_DFL)
    what = directory or argv[0]
    try:
        if directory:
            os.chdir(directory)
        what = argv[0]
        os.execvpe(argv[0], argv, dict(one.split("=", 1) for one in variables))  # noqa: S606
    except OSError as error:
        # A null byte begins it: no program's own words do.
        sys.stderr.write(f"\0{error.errno}\0{what}")
        sys.stderr.flush()
        os._exit(NOT_STARTED)


if __name__ == "__main__":
    main()
