"""A gateway as real processes, started as a user starts it."""

import asyncio
import os
import re
import signal
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from tests.fakes.control_plane import FakeControlPlane
from tests.fakes.engine import Call, chat_chunk
from tests.fakes.rawclient import RawClient, Reply, chat, get, post
from tests.waiting import wait_until

PLAIN = post(chat(), b"Connection: close")
STREAM = post(chat(stream=True), b"Connection: close")


class GatewayProcess:
    """One `llmgw gateway` with its workers. Whatever a test starts, `end` ends."""

    def __init__(self, directory: Path, plane: FakeControlPlane, *, joined: bool = True) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.log = directory / "log"
        self.plane = plane
        self.port = 0
        self.tls: ssl.SSLContext | None = None
        """What its clients connect with."""
        self.config: dict[str, object] = {
            "state_dir": str(self.state),
            "control_planes": [plane.address],
            "drain": 5.0,
            "log_level": "debug",
        }
        if joined:
            files = plane.gateway_files()
            self.config |= {
                "certificate": str(files / "identity.pem"),
                "key": str(files / "identity.pem"),
                "authority": str(files / "authority.pem"),
            }
        self._started: list[asyncio.subprocess.Process] = []
        self._pids: set[int] = set()

    @property
    def parent(self) -> asyncio.subprocess.Process:
        return self._started[-1]

    async def spawn(self, *more: str, stdin: bytes | None = None) -> asyncio.subprocess.Process:
        """Start it, and do not wait for anything."""
        self.directory.mkdir(exist_ok=True)
        self.config["listen"] = f"127.0.0.1:{self.port}"
        file = self.directory / "gateway.yaml"
        file.write_text(yaml.safe_dump(self.config))
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "llmgw", "gateway", "--config", str(file), *more),
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        if process.stdin is not None:
            process.stdin.write(stdin or b"")
            process.stdin.close()
        self._started.append(process)
        return process

    async def start(self, *more: str, stdin: bytes | None = None, table: bool = True) -> None:
        """Start it, and wait until it serves with a table (or without)."""
        await self.spawn(*more, stdin=stdin)
        if not self.port:
            found = await wait_until(self.told_port, 20.0, what="the gateway's url in its log")
            self.port = found or 0
        await self.answers(200 if table else 503)

    def told_port(self) -> int | None:
        """Return the port that its log says; None while it does not."""
        assert self.parent.returncode is None, self.log.read_text()
        found = re.search(r"url[\"=: ']+https?://127\.0\.0\.1:(\d+)", self.log.read_text())
        return int(found[1]) if found else None

    async def answers(self, status: int, *, control_plane: str | None = None) -> None:
        """Wait until every worker answers so to a health check."""
        want = {(status, control_plane)}
        seen: set[tuple[int, str | None]] = set()
        for _ in range(1000):
            health = [await self.health() for _ in range(8)]
            seen = {(code, plane if control_plane else None) for code, plane in health}
            if seen == want:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"answers {seen}, not {want}: {self.log.read_text()[-3000:]}")

    async def health(self) -> tuple[int, str | None]:
        try:
            client = await RawClient.open(self.port, tls=self.tls)
        except OSError:
            return 0, None
        try:
            reply = await client.ask(get(b"/healthz", key=None))
        finally:
            client.abort()
        return reply.status, reply.json.get("control_plane")

    def workers(self) -> dict[int, int]:
        """Return the pids of the live workers by place."""
        found = {}
        for pid in children(self.parent.pid):
            argv = argv_of(pid)
            if "llmgw.gateway.worker" in argv:
                found[int(argv[argv.index("--slot") + 1])] = pid
        self._pids |= set(found.values())
        return found

    async def end(self) -> None:
        """Kill what is left."""
        for process in self._started:
            if process.returncode is None:
                process.kill()
            await process.wait()
        await wait_until(lambda: not any(alive(pid) for pid in self._pids))


def children(pid: int) -> Sequence[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def argv_of(pid: int) -> list[str]:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [part.decode() for part in raw.split(b"\0")[:-1]]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


async def ask(gateway: GatewayProcess, request: bytes = PLAIN) -> Reply:
    client = await RawClient.open(gateway.port, tls=gateway.tls)
    try:
        return await client.ask(request)
    finally:
        client.abort()


async def open_streams(gateway: GatewayProcess, count: int) -> list[RawClient]:
    """Return clients that each got the head and one event of a stream that goes on."""
    clients = [await RawClient.open(gateway.port, tls=gateway.tls) for _ in range(count)]
    for client in clients:
        await client.ask(STREAM, head_only=True)
        await client.event()
    return clients


class Streams:
    """A behaviour: one event, then another each time it is told, then the end."""

    def __init__(self) -> None:
        self.ends = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        call.begin_stream()
        call.event(chat_chunk({"content": "first"}))
        await asyncio.wait(
            [asyncio.ensure_future(self.ends.wait()), asyncio.ensure_future(call.gone.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        call.event(chat_chunk({"content": "last"}))
        call.event(b"[DONE]")
        call.end_stream()
