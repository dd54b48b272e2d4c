"""`python -m llmgw.local.watcher`: ends what a local cluster started, once its owner is gone.

Reads one JSON object a line from standard input until it ends: `{"pid", "started", "group"}` a
service,
`{"state"}` the state directory of an agent whose engines go too, `{"remove"}` a directory. A pid
counts only together with its start time, so that nobody else's process is ever signalled.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from llmgw.base.system import SystemProcesses
from llmgw.local.processes import start_time

GENTLE = 8.0
"""Seconds that services have to end by themselves."""
FIRM = 5.0


class Service(NamedTuple):
    """A process that ends with the owner."""

    pid: int
    started: int
    """Its start time in clock ticks since boot: a pid that is used again has another."""
    group: bool
    """It leads a group, all of which ends."""


def main() -> None:
    """Read until the owner is gone, then end everything."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    services: list[Service] = []
    states: list[str] = []
    remove: list[Path] = []
    for line in sys.stdin:
        try:
            message = json.loads(line)
        except ValueError:
            continue  # the owner was killed in the middle of a line
        if message.get("started") is not None:
            services.append(Service(message["pid"], message["started"], message["group"]))
        if "state" in message:
            states.append(message["state"])
        if "remove" in message:
            remove.append(Path(message["remove"]))
    end(services, states)
    for directory in remove:
        shutil.rmtree(directory, ignore_errors=True)


def end(services: list[Service], states: list[str]) -> None:
    """End services gently, then firmly; then the engines that their agents left."""
    _signal(services, signal.SIGTERM)
    if not _within(GENTLE, lambda: not _left(services)):
        _signal(services, signal.SIGKILL)
        _within(FIRM, lambda: not _left(services))
    # Engines last: a living agent would report them lost, and be told to start others.
    engines = _Engines(states)
    engines.end(signal.SIGTERM)
    if not _within(GENTLE, lambda: not engines.left()):
        engines.end(signal.SIGKILL)
        _within(FIRM, lambda: not engines.left())


def _left(services: list[Service]) -> list[Service]:
    look = SystemProcesses().look
    return [s for s in services if look(s.pid) and start_time(s.pid) == s.started]


def _signal(services: list[Service], which: signal.Signals) -> None:
    for service in _left(services):
        if service.group:
            # Its workers and helpers go with it.
            SystemProcesses().signal_group(service.pid, which)
        else:
            with suppress(ProcessLookupError):
                os.kill(service.pid, which)


class _Engines:
    """The engines of the agents with these state directories."""

    def __init__(self, states: list[str]) -> None:
        self._states = states
        self._processes = SystemProcesses()

    def left(self) -> set[int]:
        """Return their process groups."""
        return asyncio.run(self._groups())

    def end(self, which: signal.Signals) -> None:
        """Signal them."""
        for group in self.left():
            if group != os.getpgrp():
                self._processes.signal_group(group, which)

    async def _groups(self) -> set[int]:
        found = self._processes.with_environ
        return {seen.group for state in self._states for seen in await found("LLMGW_STATE", state)}


def _within(seconds: float, done: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not done():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)  # noqa: TID251  (a process without a loop that waits for others to end)
    return True


if __name__ == "__main__":
    main()
