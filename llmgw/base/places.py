"""Where a service's files lie, and whether they are private enough."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from llmgw.base.errors import NotFound, Refused


@dataclass(frozen=True, slots=True)
class Places:
    """The directories of one service of one user."""

    config: Path
    """The service's own file, which need not exist."""
    state: Path
    weights: Path
    engines: Path
    user_config: Path
    """Where the command line's contexts lie."""

    @staticmethod
    def find(
        service: str, *, environ: Mapping[str, str], root: bool, state: Path | None = None
    ) -> "Places":
        """Return the places of `server`, `gateway` or `agent`.

        Args:
            service: the service's name.
            environ: HOME and the XDG variables are read from it.
            root: the service runs as root: `/etc` and `/var/lib` are used.
            state: overrides the state directory.
        """
        home = Path(environ.get("HOME") or "/")
        config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "llmgw"
        if root:
            base = state or Path("/var/lib/llmgw") / service
            return Places(
                config=Path("/etc/llmgw") / f"{service}.yaml",
                state=base,
                weights=Path("/var/lib/llmgw-weights"),
                engines=Path("/var/lib/llmgw/engines"),
                user_config=config,
            )
        cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache") / "llmgw"
        share = Path(environ.get("XDG_STATE_HOME") or home / ".local" / "state") / "llmgw"
        return Places(
            config=config / f"{service}.yaml",
            state=state or share / service,
            weights=cache / "weights",
            engines=cache / "engines",
            user_config=config,
        )


def private_dir(path: Path) -> Path:
    """Make a directory of mode 0700 that this user owns, or check the one that is there.

    Raises:
        Refused: it can't be made or written, it belongs to somebody else, or others may enter it.
    """
    _make(path, 0o700)
    _check(path, 0o077, "chmod 700")
    _check_usable(path)
    return path


def usable_dir(path: Path) -> Path:
    """Make a directory that this user may read and write, or check the one that is there.

    Others may share it: whose it is does not matter.

    Raises:
        Refused: it can't be made, read or written.
    """
    _make(path, 0o777)
    _check_usable(path)
    return path


def check_private(path: Path) -> None:
    """Check that only this user may read or write a file that is there.

    Raises:
        Refused: it belongs to somebody else, or others may read it.
    """
    _check(path, 0o077, "chmod 600")


def check_ours(path: Path) -> None:
    """Check that nobody but this user and root may change a file that is obeyed.

    Raises:
        FileNotFoundError: there is no such file.
        Refused: it belongs to somebody else, or others may write it.
    """
    seen = path.stat()
    if seen.st_uid not in {0, os.geteuid()}:
        raise Refused(
            f"{path}: belongs to uid {seen.st_uid}, neither to root nor to uid {os.geteuid()}",
            hint=f"run: chown {os.geteuid()} {quote(str(path))}",
        )
    if stat.S_IMODE(seen.st_mode) & 0o022:
        raise Refused(
            f"{path}: mode {stat.S_IMODE(seen.st_mode):o} lets others change it",
            hint=f"run: chmod go-w {quote(str(path))}",
        )


def read_private(path: Path) -> bytes:
    """Return the content of a file that only this user may read.

    Raises:
        NotFound: there is no such file.
        Refused: it belongs to somebody else, or others may read it.
    """
    try:
        _check(path, 0o077, "chmod 600")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NotFound(f"{path}: no such file") from error
    except PermissionError as error:
        raise Refused(f"{path}: this user may not read it") from error


def _make(path: Path, mode: int) -> None:
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(
            f"{path}: this directory can't be made: {error.strerror}",
            hint="give another place, or let this user write there",
        ) from error


def _check_usable(path: Path) -> None:
    if os.access(path, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
        return
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise Refused(
            f"{path}: its filesystem is mounted read-only", hint="give another place, or remount it"
        )
    seen, us = path.stat(), os.geteuid()
    if seen.st_uid == us:
        raise Refused(
            f"{path}: mode {stat.S_IMODE(seen.st_mode):o} keeps its own user out",
            hint=f"run: chmod u+rwx {quote(str(path))}",
        )
    raise Refused(
        f"{path}: belongs to uid {seen.st_uid}, and uid {us} may not read and write there",
        hint=f"run: chown {us} {quote(str(path))}",
    )


def _check(path: Path, forbidden: int, command: str) -> None:
    seen = path.stat()
    if seen.st_uid != os.geteuid():
        raise Refused(
            f"{path}: belongs to uid {seen.st_uid}, not to uid {os.geteuid()}",
            hint=f"run: chown {os.geteuid()} {quote(str(path))}",
        )
    if stat.S_IMODE(seen.st_mode) & forbidden:
        raise Refused(
            f"{path}: mode {stat.S_IMODE(seen.st_mode):o} lets others in",
            hint=f"run: {command} {quote(str(path))}",
        )
