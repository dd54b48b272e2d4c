"""What the tests of whole clusters look at."""

import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llmgw.base.secrets import Secret
from llmgw.base.system import SystemProcesses
from llmgw.local.cluster import LocalCluster
from tests.waiting import wait_for


def node(cluster: LocalCluster, name: str) -> dict[str, Any]:
    found: dict[str, Any] = cluster.client().get(f"/nodes/{name}")
    return found


def ctl(cluster: LocalCluster, *words: str) -> str:
    """Return what `llmgw ctl` prints."""
    return llmgw(cluster, "ctl", *words).stdout


def llmgw(cluster: LocalCluster, *words: str) -> "subprocess.CompletedProcess[str]":
    """Return what a command printed, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "llmgw", *words],
        env={
            **os.environ,
            "LLMGW_SERVER": f"http://{cluster.admin}",
            "LLMGW_TOKEN_FILE": str(cluster.token_file),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done


def commands(cluster: LocalCluster, node: str) -> list[str]:
    """Return the start and stop commands that an agent says it got, from its log of debugging."""
    text = cluster.owner.services[node].log.read_text()
    return [line for line in text.splitlines() if "start_shard" in line or "stop_shard" in line]


def liveness(cluster: LocalCluster, name: str) -> str | None:
    return next((n["liveness"] for n in cluster.client().get("/nodes") if n["id"] == name), None)


def replicas(cluster: LocalCluster, model: str | None = None) -> list[dict[str, Any]]:
    return [r for r in cluster.client().get("/replicas") if model in (None, r["model"])]


def ready(
    cluster: LocalCluster, model: str, count: int = 1, timeout: float = 60.0
) -> list[dict[str, Any]]:
    """Wait until that many replicas of a model are ready, and return them."""

    def enough() -> list[dict[str, Any]] | None:
        found = [r for r in replicas(cluster, model) if r["state"] == "ready"]
        return found if len(found) >= count else None

    return cluster.wait(enough, timeout, f"{count} ready replicas of {model}")


def pid_of(replica: dict[str, Any]) -> int:
    pid: int = replica["shards"][0]["pid"]
    return pid


def alive(pid: int) -> bool:
    return SystemProcesses().look(pid) is not None


class Asking:
    """A user of the gateway."""

    def __init__(self, cluster: LocalCluster, key: Secret, model: str) -> None:
        self.port = cluster.gateway_port or 0
        self.key = key
        self.model = model

    def ask(self, tokens: int = 4, timeout: float = 10.0) -> tuple[int, dict[str, Any]]:
        """Send one request that is not streamed; return status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            self._send(connection, {"max_tokens": tokens})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def works(self) -> bool:
        try:
            return self.ask()[0] == http.client.OK
        except OSError:
            return False

    def stream(self, tokens: int) -> "Streaming":
        return Streaming(self, tokens)

    def events(self, tokens: int) -> Iterator[dict[str, Any]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            self._send(connection, {"max_tokens": tokens, "stream": True, "ignore_eos": True})
            response = connection.getresponse()
            assert response.status == http.client.OK, response.read()
            for line in response:
                if line.startswith(b"data: [DONE]"):
                    yield {"done": True}
                elif line.startswith(b"data:"):
                    yield json.loads(line[5:])
        finally:
            connection.close()

    def _send(self, connection: http.client.HTTPConnection, more: dict[str, Any]) -> None:
        body = {"model": self.model, "prompt": "count to ten", **more}
        headers = {
            "Authorization": f"Bearer {self.key.reveal()}",
            "Content-Type": "application/json",
        }
        connection.request("POST", "/v1/completions", json.dumps(body), headers)


class Streaming:
    """A streamed reply that is read in a thread of its own."""

    def __init__(self, asking: Asking, tokens: int) -> None:
        self.events: list[dict[str, Any]] = []
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._read, args=(asking, tokens), daemon=True)
        self._thread.start()

    def _read(self, asking: Asking, tokens: int) -> None:
        try:
            for event in asking.events(tokens):
                self.events.append(event)
        except BaseException as error:  # noqa: BLE001  (handed to the test)
            self.error = error

    def begun(self, pieces: int = 3) -> None:
        wait_for(lambda: len(self.events) >= pieces or self.error, what="the stream begins")
        assert self.error is None

    def finished(self, timeout: float = 60.0) -> bool:
        """Wait for its end and say whether it ended as a whole reply does."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "the stream did not end"
        return self.error is None and bool(self.events) and self.events[-1] == {"done": True}


class Engines:
    """Looks, as often as it can, whether two engines of one node have the same device.

    What an engine has is what its process was started with. Used as a context.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self.seen: set[str] = set()
        """Replicas that had devices."""
        self.looks = 0
        self.clashes: set[tuple[str, ...]] = set()
        """Node, device, and the replicas that had it at once."""
        self._below = str(cluster.directory)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Engines":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.02):
            holders: dict[tuple[str, str], set[str]] = {}
            for node, replica, devices in self._engines():
                self.seen.add(replica)
                for device in devices:
                    holders.setdefault((node, device), set()).add(replica)
            self.clashes.update(
                (*where, *sorted(there)) for where, there in holders.items() if len(there) > 1
            )
            self.looks += 1

    def _engines(self) -> Iterator[tuple[str, str, list[str]]]:
        for process in Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            try:
                text = (process / "environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            environ = dict(line.partition("=")[::2] for line in text.split("\0"))
            devices = environ.get("CUDA_VISIBLE_DEVICES", "")
            if devices and environ.get("LLMGW_STATE", "").startswith(self._below):
                _, node, replica, _ = environ["LLMGW_SHARD"].split("/")
                yield node, replica, devices.split(",")


def listeners(port: int) -> set[int]:
    """Return the pids of all processes that listen on a TCP port of this machine."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    found = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                links = {str(fd.readlink()) for fd in (process / "fd").iterdir()}
            except OSError:
                continue
            if links & inodes:
                found.add(int(process.name))
    return found


def sockets_of(pid: int, *, local: int) -> set[int]:
    """Return the far ports of a process's TCP connections of IPv4 at a local port."""
    far = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == local:
            far[f"socket:[{fields[9]}]"] = int(fields[2].rpartition(":")[2], 16)
    links = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()}
    return {port for link, port in far.items() if link in links and port}


def group_of(pid: int) -> int | None:
    seen = SystemProcesses().look(pid)
    return seen.group if seen else None
