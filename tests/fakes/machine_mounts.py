"""Runs a program on a machine made of files: in a mount namespace of its own, which ends with it.

`python machine_mounts.py PLACE ARGUMENTS...` lays what `tests.fakes.recorded_machine` put below
PLACE over this machine's own, for itself alone, and becomes the program. Needs root.
"""

import ctypes
import os
import sys
from pathlib import Path

_CLONE_NEWNS = 0x20000
_MS_RDONLY, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 4096, 16384, 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}


def own_namespace() -> None:
    """Leave the mounts of everybody else: nothing that is mounted from now on reaches them.

    Raises:
        OSError: this user may not.
    """
    if _libc.unshare(_CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    mount(None, Path("/"), _MS_REC | _MS_PRIVATE)


def mount(
    source: Path | None, target: Path, flags: int, kind: str = "none", options: str = ""
) -> None:
    """Mount something. Raises OSError."""
    said = [
        None if one is None else os.fsencode(one) for one in (source, target, kind, options or None)
    ]
    if _libc.mount(said[0], said[1], said[2], ctypes.c_ulong(flags), said[3]) != 0:
        raise OSError(ctypes.get_errno(), f"mount on {target}")


def bind(source: Path, target: Path) -> None:
    """Show one file or directory at another place. Raises OSError."""
    mount(source, target, _MS_BIND | _MS_REC)


def lay(place: Path) -> None:
    """Lay the recorded machine over this one. Raises OSError."""
    for name in ("devices/system", "fs"):
        real, shown = Path("/sys") / name, place / "sys" / name
        if real.is_dir():
            shown.mkdir(parents=True, exist_ok=True)
            bind(real, shown)
    bind(place / "sys", Path("/sys"))
    _lay_devices(place / "dev")
    bind(place / "proc" / "devices", Path("/proc/devices"))
    mount(Path("etc"), Path("/etc"), _MS_RDONLY, "overlay", f"lowerdir={place / 'etc'}:/etc")


def _lay_devices(own: Path) -> None:
    """Lay a /dev that has what every program wants, what was recorded, and no kernel log."""
    for name in DEVICES:
        (own / name).touch()
        bind(Path("/dev") / name, own / name)
    for name in ("pts", "shm"):
        if (Path("/dev") / name).is_dir():
            (own / name).mkdir(exist_ok=True)
            bind(Path("/dev") / name, own / name)
    for name, target in LINKS.items():
        if not (own / name).is_symlink():
            (own / name).symlink_to(target)
    bind(own, Path("/dev"))


def main() -> None:
    """Become the program."""
    place, *argv = sys.argv[1:]
    own_namespace()
    lay(Path(place))
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main()
