"""Our gateway as its users start it, and proof that its features are on."""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from llmgw.link.tls import files_in
from llmgw.model.gateway import Route
from tests.bench.gateway.machine import PROXY, REST, Engines, line, pin, pinned
from tests.fakes.control_plane import HOUR, FakeControlPlane
from tests.fakes.gateway import KEY, endpoint, table
from tests.flow.gateway.process import GatewayProcess

FEATURES = ("keys", "accounting", "prefix")
ASKED = 24


class Ours:
    """A gateway with one worker, and a control plane that it follows.

    Args:
        ports: of the engines.
        tls: users connect over TLS.
    """

    key = KEY

    def __init__(self, ports: list[int], *, tls: bool = False) -> None:
        self.name = "ours over TLS" if tls else "ours"
        self._process = pinned(
            REST,
            [sys.executable, "-m", "tests.bench.gateway.ours", *map(str, ports), *["tls"] * tls],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        told = json.loads(line(self._process.stdout))
        self.pid, self.port = int(told["pid"]), int(told["port"])
        self.authority: str | None = told["authority"]
        """Who signed its certificate (a file), when users connect over TLS."""

    def counted(self) -> dict[str, int]:
        """Return what the control plane was told of the key's use of the model."""
        assert self._process.stdin is not None
        self._process.stdin.write("totals\n")
        self._process.stdin.flush()
        return dict(json.loads(line(self._process.stdout)))

    def end(self) -> None:
        """End the gateway, then the control plane."""
        self._process.communicate("end\n")


def missing(ours: Ours, engines: Engines) -> list[str]:
    """Return the features that did not show themselves."""
    checks = (_keys(ours), _accounting(ours), _prefix(ours, engines))
    return [name for name, shown in zip(FEATURES, checks, strict=True) if not shown]


def _keys(ours: Ours) -> bool:
    return [_ask(ours.port, KEY), _ask(ours.port, KEY[:-1] + "x")] == [200, 401]


def _accounting(ours: Ours) -> bool:
    before = ours.counted()
    for number in range(ASKED):
        _ask(ours.port, KEY, f"bench:short {number}")
    after = ours.counted()
    return (
        after["requests"] - before["requests"] == ASKED
        and after["completion_tokens"] - before["completion_tokens"] == ASKED * 64
    )


def _prefix(ours: Ours, engines: Engines) -> bool:
    """Say whether a conversation goes to one engine though all are idle."""
    words = "bench:short " + "once upon a time " * 500
    _ask(ours.port, KEY, words)
    before = engines.stats()["requests"]
    for number in range(ASKED):
        _ask(ours.port, KEY, words + f" and then {number}")
    asked = [now - then for now, then in zip(engines.stats()["requests"], before, strict=True)]
    return max(asked) >= 0.9 * ASKED


def _ask(port: int, key: str, content: str = "bench:short") -> int:
    body = {"model": "m", "messages": [{"role": "user", "content": content}]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            reply.read()
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


async def _serve(ports: list[int], *, tls: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        plane = FakeControlPlane(Path(name) / "control")
        await plane.start()
        endpoints = tuple(
            endpoint(port, f"m-{number}", engine="vllm") for number, port in enumerate(ports)
        )
        plane.table = table(Route(model="m", endpoints=endpoints, wanted=len(ports)))
        gateway = GatewayProcess(Path(name) / "gateway", plane)
        gateway.config |= {"workers": 1, "log_level": "warning", "listen": "127.0.0.1:0"}
        gateway.port = free_port()
        authority = _with_tls(plane, gateway, Path(name) / "tls") if tls else None
        try:
            await gateway.start()
            pin(gateway.parent.pid, PROXY)
            say({"pid": gateway.parent.pid, "port": gateway.port, "authority": authority})
            while await asyncio.to_thread(sys.stdin.readline) == "totals\n":
                await asyncio.sleep(1.5)  # a gateway tells each half second
                say(totals(plane))
        finally:
            await gateway.end()
            await plane.stop()


def _with_tls(plane: FakeControlPlane, gateway: GatewayProcess, directory: Path) -> str:
    """Give a gateway a certificate; return the file of who signed it."""
    now = plane.clock.now()
    plane.ca.issue(directory, role="server", subject="users", now=now, lifetime=HOUR)
    files = files_in(directory)
    gateway.config |= {"tls_cert": str(files.certificate), "tls_key": str(files.key)}
    gateway.tls = ssl.create_default_context(cafile=str(files.authority))
    return str(files.authority)


def totals(plane: FakeControlPlane) -> dict[str, int]:
    row = plane.totals().get(("k1", "m"))
    names = ("requests", "completion_tokens")
    return {name: 0 if row is None else getattr(row, name) for name in names}


def say(value: Any) -> None:
    print(json.dumps(value), flush=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


if __name__ == "__main__":
    asyncio.run(_serve([int(one) for one in sys.argv[1:] if one.isdigit()], tls="tls" in sys.argv))
