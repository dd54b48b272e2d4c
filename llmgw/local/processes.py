"""Services of one machine as processes that end when their owner does, whatever ends the owner.

Every service is started by the owner and known to a watcher: a small process that reads a pipe
from the owner. When the pipe ends (the owner ended, was killed, or closed it on purpose) the
watcher ends the services, then the engines that their agents left, and exits.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from llmgw.base.errors import LlmgwError, TimedOut


class Owned:
    """One service that runs."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        """Return its pid."""
        return self.process.pid

    def alive(self) -> bool:
        """Say whether it still runs."""
        return self.process.poll() is None

    def last_lines(self, count: int = 5) -> list[str]:
        """Return the last lines of its log."""
        try:
            return self.log.read_text(errors="replace").splitlines()[-count:]
        except FileNotFoundError:
            return []


class Owner:
    """Starts services and ends them all.

    Args:
        directory: where logs go.
        environ: the environment of every service.
    """

    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        self.directory = directory
        self.environ = dict(environ)
        self.services: dict[str, Owned] = {}
        self._watcher: subprocess.Popen[bytes] | None = None

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        stdin: bytes | None = None,
        stdout: int | IO[bytes] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Owned:
        """Start a service; its stderr goes to `<directory>/<name>.log`.

        Args:
            name: under which it is known; a former service of that name must have ended.
            argv: its command line.
            stdin: what it reads from standard input, which is closed then.
            stdout: where its output goes; the log when not given.
            environ: added to the environment.
        """
        log = self.directory / f"{name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                stdout=out if stdout is None else stdout,
                stderr=out,
                env={**self.environ, **(environ or {})},
                start_new_session=True,
            )
        owned = Owned(name, process, log)
        self.services[name] = owned
        self.own(process.pid)
        if stdin is not None and process.stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
        return owned

    def own(self, pid: int, *, group: bool = True) -> None:
        """Say that a process ends with the owner; `group`: it leads a group that ends with it."""
        self.tell({"pid": pid, "started": start_time(pid), "group": group})

    def own_engines_of(self, state: Path) -> None:
        """Say that the engines of the agent with that state directory end with the owner."""
        self.tell({"state": str(state)})

    def remove_at_end(self, directory: Path) -> None:
        """Say that a directory is removed when everything has ended."""
        self.tell({"remove": str(directory)})

    def tell(self, message: Mapping[str, object]) -> None:
        """Tell the watcher one thing; the first message starts it."""
        if self._watcher is None:
            self._watcher = subprocess.Popen(
                [sys.executable, "-m", "llmgw.local.watcher"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=self.environ,
                start_new_session=True,
            )
        pipe = self._watcher.stdin
        if pipe is None:
            raise LlmgwError("the watcher of this cluster's processes has ended")
        pipe.write(json.dumps(message).encode() + b"\n")
        pipe.flush()

    def end(self, timeout: float = 60.0) -> None:
        """End all services and their engines, and return when they are gone.

        Raises:
            TimedOut: something did not end.
        """
        watcher, self._watcher = self._watcher, None
        if watcher is None or watcher.stdin is None:
            return
        watcher.stdin.close()
        try:
            # The services are children of this process: without a wait they stay as zombies.
            for service in self.services.values():
                service.process.wait(timeout)
            watcher.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise TimedOut(f"{self.directory}: a service did not end in {timeout:g} s") from error


def start_time(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot; None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return int(text[text.rindex(")") + 2 :].split()[19])


def environ_of_services(base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for services: this one, without what belongs to a client."""
    mine = {name: value for name, value in base.items() if not name.startswith("LLMGW_")}
    return {**mine, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{mine.get('PATH', '')}"}
