"""Two hundred streams, while a worker, the store and the control plane go away one after the other.

Whose worker lives reads on; what each key used is counted but for a second; and a key that nobody
knows is never called wrong by who cannot ask.
"""

import asyncio
import http.client
import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llmgw.local import demo_model
from llmgw.local.cluster import LocalCluster, kill
from tests.real.cluster.conftest import Make
from tests.real.cluster.watching import Asking, ready, sockets_of
from tests.waiting import wait_for

pytestmark = pytest.mark.real

STREAMS, KEYS = 200, ("reader", "writer")
PER_SECOND = 5
TOKENS = 24 * PER_SECOND
LOST_MOST = 1.0
"""Seconds before a kill whose tokens may be lost with who is killed."""
MODEL = "simulated"
STRANGER = "llmgw_nobody0000_" + "x" * 43


@dataclass
class Stream:
    """One streamed reply, and when each of its tokens came."""

    key: str
    port: int = 0
    """Of the client's end: by it a worker's socket is found."""
    tokens: list[float] = field(default_factory=list)
    whole: bool = False
    over: bool = False

    def take(self, line: bytes) -> None:
        if line.startswith(b"data: [DONE]"):
            self.whole = True
        elif line.startswith(b"data:"):
            choices = json.loads(line[5:])["choices"]
            if choices and choices[0]["text"]:
                self.tokens.append(time.monotonic())


class Crowd:
    """Reads all streams in one thread with a loop of its own."""

    def __init__(self, port: int, keys: dict[str, str]) -> None:
        self._port = port
        self._keys = keys
        self.streams = [Stream(KEYS[number % len(KEYS)]) for number in range(STREAMS)]
        self._thread = threading.Thread(target=lambda: asyncio.run(self._read_all()), daemon=True)
        self._thread.start()

    def received(self, key: str) -> int:
        return sum(len(one.tokens) for one in self.streams if one.key == key)

    def last_second(self, key: str, victims: list[Stream], moment: float) -> int:
        """Return the tokens of a key that may be lost with who carried these streams."""
        times = [at for one in victims if one.key == key for at in one.tokens]
        return sum(at > moment - LOST_MOST for at in times)

    def join(self, limit: float) -> None:
        self._thread.join(limit)
        assert not self._thread.is_alive(), "the streams did not end"

    async def _read_all(self) -> None:
        await asyncio.gather(*(self._read(one) for one in self.streams))

    async def _read(self, stream: Stream) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        stream.port = writer.get_extra_info("sockname")[1]
        body = {"model": MODEL, "prompt": "count", "max_tokens": TOKENS, "stream": True}
        data = json.dumps({**body, "ignore_eos": True}).encode()
        head = (
            f"POST /v1/completions HTTP/1.1\r\nHost: gateway\r\nContent-Length: {len(data)}\r\n"
            f"Authorization: Bearer {self._keys[stream.key]}\r\n"
            "Content-Type: application/json\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + data)
        try:
            async for line in reader:
                stream.take(line)
        except ConnectionError:
            pass
        finally:
            stream.over = True
            writer.close()


@contextmanager
def store_locked(file: Path) -> Iterator[None]:
    """Hold the store's file as another program would: nothing can be written into it."""
    other = sqlite3.connect(file, isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        yield
    finally:
        other.close()


def worker_of(port: int, gateway: int) -> dict[int, int]:
    """Return which worker carries which client, by the client's port."""
    children = Path(f"/proc/{gateway}/task/{gateway}/children").read_text().split()
    return {
        client: int(child) for child in children for client in sockets_of(int(child), local=port)
    }


def asked(cluster: LocalCluster, key: str) -> tuple[int, str | None]:
    """Return what a request with a key is answered: status and code."""
    connection = http.client.HTTPConnection("127.0.0.1", cluster.gateway_port or 0, timeout=10)
    try:
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        body: dict[str, Any] = json.loads(response.read())
        return response.status, body.get("error", {}).get("code")
    finally:
        connection.close()


def everywhere(cluster: LocalCluster, key: str, wanted: int) -> Callable[[], bool]:
    """Return whether both workers answer so: one in a row of connections is each one's."""
    return lambda: {asked(cluster, key)[0] for _ in range(12)} == {wanted}


def goes_on(streams: list[Stream]) -> None:
    """Wait until each stream got something new, or its end."""
    before = {id(one): len(one.tokens) for one in streams}
    wait_for(
        lambda: all(one.whole or len(one.tokens) > before[id(one)] for one in streams),
        what="every stream goes on",
    )


def counted(cluster: LocalCluster, key_id: str) -> int:
    rows: list[dict[str, Any]] = cluster.client().get("/usage")
    return sum(row["completion_tokens"] for row in rows if row["key"] == key_id)


def all_told(cluster: LocalCluster) -> bool:
    """Say whether the store has everything that the gateway wrote into its journal."""
    return not any((cluster.directory / "gateway" / "usage").glob("*.usage"))


def tells(cluster: LocalCluster, key_id: str, received: int, lost: int) -> bool:
    """Say whether all is told that will be, and as much as was received but for what was lost."""
    return all_told(cluster) and abs(counted(cluster, key_id) - received) <= lost


def started(cluster: LocalCluster) -> dict[str, str]:
    """Start all, and return the keys by name."""
    cluster.start(agents=1)
    model = demo_model.simulated(MODEL, arguments=("--tokens-per-second", str(PER_SECOND)))
    profile = msgspec.structs.replace(model.profiles[0], concurrency=STREAMS + 8)
    cluster.put_model(msgspec.structs.replace(model, profiles=(profile,)))
    ready(cluster, MODEL)
    keys = {name: cluster.make_key(name).reveal() for name in KEYS}
    wait_for(Asking(cluster, cluster.make_key("probe"), MODEL).works)
    return keys


def kill_a_worker(cluster: LocalCluster, crowd: Crowd) -> tuple[list[Stream], list[Stream], float]:
    """Return whose worker was killed, the others, and when."""
    port = cluster.gateway_port or 0
    carried = worker_of(port, cluster.owner.services["gateway"].pid)
    victim = carried[crowd.streams[0].port]
    victims = [one for one in crowd.streams if carried[one.port] == victim]
    others = [one for one in crowd.streams if carried[one.port] != victim]
    assert others, "one worker carries all streams"
    # Long enough that the last second is not everything.
    wait_for(lambda: time.monotonic() - max(one.tokens[0] for one in victims) > 2 * LOST_MOST)
    killed = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: all(one.over for one in victims), what="the killed worker's streams end")
    assert not any(one.whole for one in victims)
    return victims, others, killed


def lock_the_store(cluster: LocalCluster, known: str, others: list[Stream]) -> None:
    wait_for(everywhere(cluster, STRANGER, 401))
    with store_locked(cluster.server_state / "store.sqlite"):
        wait_for(everywhere(cluster, STRANGER, 503), 20, what="nobody is called wrong")
        assert asked(cluster, STRANGER) == (503, "key_not_known_yet")
        assert {asked(cluster, known)[0] for _ in range(12)} == {200}
        goes_on(others)
    wait_for(everywhere(cluster, STRANGER, 401), 20, what="the store is asked again")


def kill_the_control_plane(cluster: LocalCluster, known: str, others: list[Stream]) -> None:
    """Who has the store open ends, and another begins."""
    kill(cluster.owner.services["server"])
    wait_for(everywhere(cluster, STRANGER, 503))
    assert {asked(cluster, known)[0] for _ in range(12)} == {200}
    goes_on(others)
    cluster.start_server()
    wait_for(everywhere(cluster, STRANGER, 401), 20, what="the gateway is connected again")


def test_two_hundred_streams_outlive_a_worker_s_the_store_s_and_the_control_plane_s_end(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    keys = started(cluster)
    crowd = Crowd(cluster.gateway_port or 0, keys)
    wait_for(lambda: all(len(one.tokens) >= 2 for one in crowd.streams), 20, what="all began")
    victims, others, killed = kill_a_worker(cluster, crowd)
    lock_the_store(cluster, keys[KEYS[0]], others)
    kill_the_control_plane(cluster, keys[KEYS[0]], others)
    crowd.join(60)
    assert all(one.whole and len(one.tokens) == TOKENS for one in others)
    for name, key in keys.items():
        got, lost = crowd.received(name), crowd.last_second(name, victims, killed)
        wait_for(
            partial(tells, cluster, key.split("_")[1], got, lost),
            what=f"{name}: of {got} tokens all but {lost} are counted",
        )
