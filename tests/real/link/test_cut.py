"""A cable that is cut: no packet passes, nothing is closed. Both sides notice within the bound.

The two sides run in network namespaces of their own, and the packet filter drops everything between
them. Needs root, iproute2 and nft or iptables.
"""

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.flow.link.place import Place
from tests.waiting import wait_for

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[3]
SERVER, AGENT = "10.231.77.1", "10.231.77.2"
_numbers = itertools.count()


def why_not() -> str | None:
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "needs `ip` (package iproute2)"
    if shutil.which("nft") is None and shutil.which("iptables") is None:
        return "needs `nft` (package nftables) or `iptables`"
    return None


def ip(*argv: str) -> None:
    subprocess.run(["ip", *argv], check=True, capture_output=True)


@pytest.fixture
def namespaces() -> Iterator[tuple[str, str]]:
    """Return two connected network namespaces: the control plane's and the agent's."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    name = f"llmgw{os.getpid()}-{next(_numbers)}"
    names = (f"{name}a", f"{name}b")
    links = (f"lg{os.getpid() % 100000}a", f"lg{os.getpid() % 100000}b")
    with ExitStack() as undo:
        for one in names:
            ip("netns", "add", one)
            undo.callback(ip, "netns", "del", one)
        ip("link", "add", links[0], "netns", names[0], "type", "veth", "peer", "name", links[1])
        ip("link", "set", links[1], "netns", names[1])
        for one, link, address in zip(names, links, (SERVER, AGENT), strict=True):
            ip("-n", one, "address", "add", f"{address}/24", "dev", link)
            ip("-n", one, "link", "set", link, "up")
            ip("-n", one, "link", "set", "lo", "up")
        yield names


class Cut:
    """Drops every packet of a namespace, both ways, until it is mended."""

    def __init__(self, namespace: str) -> None:
        self._inside = ("ip", "netns", "exec", namespace)
        self._nft = shutil.which("nft") is not None

    def make(self) -> float:
        """Cut, and return when."""
        if self._nft:
            self._run("nft", "add", "table", "inet", "cut")
            for hook in ("input", "output"):
                chain = f"{{ type filter hook {hook} priority 0; policy drop; }}"
                self._run("nft", "add", "chain", "inet", "cut", hook, chain)
        else:
            for chain in ("INPUT", "OUTPUT"):
                self._run("iptables", "-I", chain, "-j", "DROP")
        return time.monotonic()

    def mend(self) -> None:
        if self._nft:
            self._run("nft", "delete", "table", "inet", "cut")
        else:
            for chain in ("INPUT", "OUTPUT"):
                self._run("iptables", "-D", chain, "-j", "DROP")

    def _run(self, *argv: str) -> None:
        subprocess.run([*self._inside, *argv], check=True, capture_output=True)


class Side:
    """One side of the link in a namespace; `lines` is what it has printed."""

    def __init__(self, namespace: str, *argv: object) -> None:
        paths = ":".join(str(ROOT / part) for part in (".", "agent", "tui", "proto"))
        program = [sys.executable, "-m", "tests.flow.link.peer_process", *map(str, argv)]
        self._child = subprocess.Popen(
            ["ip", "netns", "exec", namespace, *program],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._child.stdout is not None
        self._out = self._child.stdout
        os.set_blocking(self._out.fileno(), False)
        self._text = ""

    @property
    def lines(self) -> list[str]:
        self._text += (self._out.read() or b"").decode()
        return self._text.splitlines()

    def lost(self) -> float | None:
        """Return when it noticed that the other side is gone."""
        lost = [line.split()[1] for line in self.lines if line.startswith("lost")]
        return float(lost[0]) if lost else None

    def end(self) -> None:
        self._child.kill()
        self._child.wait()
        self._out.close()


@contextmanager
def side(namespace: str, *argv: object) -> Iterator[Side]:
    made = Side(namespace, *argv)
    try:
        yield made
    finally:
        with suppress(ProcessLookupError):
            made.end()


@pytest.mark.parametrize("interval", [0.5, 1.0])
def test_a_cut_is_noticed_by_both_sides_in_time_and_the_agent_returns(
    namespaces, tmp_path, interval
):
    place = Place(tmp_path)
    server_files = place.issue("server", "head", addresses=[SERVER])
    agent_files = place.issue("node", "gpu-01")
    server_of, agent_of = (files.authority.parent for files in (server_files, agent_files))
    cut = Cut(namespaces[0])
    with side(namespaces[0], "server", 7442, server_of, interval, SERVER) as server:
        wait_for(lambda: server.lines, what="the control plane listens")
        with side(namespaces[1], "agent", f"{SERVER}:7442", agent_of, interval) as agent:
            wait_for(lambda: "welcome" in agent.lines, what="the agent is welcomed")
            began = cut.make()
            bound = 3 * interval + 1.0
            for one in (server, agent):
                noticed = wait_for(one.lost, timeout=10, what="the cut is noticed")
                assert noticed is not None
                assert noticed - began < bound
            assert f"no message from it for {3 * interval:g} s" in agent.lines[-1]
            cut.mend()
            wait_for(lambda: agent.lines.count("welcome") == 2, what="the agent is back")
