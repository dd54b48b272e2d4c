"""What is measured of one proxy: CPU for each unit of work, memory for each open stream."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.bench.gateway.machine import Engines, Load, cpu_us, resident

SIZES = {"600 B": 600, "8 KB": 8 << 10, "64 KB": 64 << 10}
CONNECTIONS = 16
STREAMS = 64
HELD = 1000
GONE_WITHIN = 10.0

SHORT = "short request, {}"
PACED, BURST = "paced chunk", "burst chunk"
MEMORY, GONE, LEFT = "KB per open stream", "quiet streams gone, s", "left running"


class Proxy(Protocol):
    """What is measured."""

    name: str
    port: int
    key: str

    @property
    def pid(self) -> int:
        """Return its first process."""
        ...


@dataclass(frozen=True)
class Work:
    """One unit of work: how it is asked for, and what is counted."""

    name: str
    kind: str
    size: int
    clients: int
    counts: str
    seconds: float = 2.0


WORKS = (
    *(
        Work(SHORT.format(name), "short", size, CONNECTIONS, "replies")
        for name, size in SIZES.items()
    ),
    Work(PACED, "paced", 600, STREAMS, "events", 2.5),
    Work(BURST, "burst", 600, STREAMS, "events"),
)


def request(kind: str, size: int, proxy: Proxy) -> bytes:
    """Return a request whose body has about so many bytes: one of 64 conversations, a new turn."""
    asked = {
        "model": "m",
        "messages": [
            {"role": "system", "content": f"You are helpful. bench:{kind} CONV0000 "},
            {"role": "user", "content": "TURN00000000"},
        ],
        "max_tokens": 64,
        "temperature": 0.7,
        "stream": kind != "short",
    }
    room = size - len(json.dumps(asked))
    asked["messages"][0]["content"] += ("the quick brown fox " * (room // 20 + 1))[:room]  # type: ignore[index]
    body = json.dumps(asked, separators=(",", ":")).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{proxy.port}\r\n"
        f"Authorization: Bearer {proxy.key}\r\nContent-Type: application/json\r\n"
        f"User-Agent: OpenAI/Python 1.99.0\r\nAccept: */*\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def cost(proxy: Proxy, engines: Engines, work: Work, seconds: float) -> dict[str, float]:
    """Return µs of CPU of the proxy and of the engines for each unit of work, and ms for a reply.

    Raises:
        ValueError: requests failed.
    """
    asked = request(work.kind, work.size, proxy)
    before, engines_before = cpu_us(proxy.pid), cpu_us(engines.pid)
    load = Load("repeat", proxy.port, asked, work.clients, seconds)
    told = load.told()
    load.end()
    done = told[work.counts]
    if told["errors"] or told["refused"] or not done:
        raise ValueError(f"{proxy.name}, {work.name}: {told}")
    return {
        "us": (cpu_us(proxy.pid) - before) / done,
        "engines_us": (cpu_us(engines.pid) - engines_before) / done,
        "median_ms": told["median_ms"],
        "count": done,
    }


def open_streams(proxy: Proxy, engines: Engines) -> dict[str, float | None]:
    """Return KB of memory for each stream that is open and silent, and when quiet ones are gone.

    Quiet ones are those whose engine has not sent a byte: all clients leave at once, and the time
    is until no engine works for them. None: some were still worked for after 10 s.
    """
    before = resident(proxy.pid)
    load = Load("hold", proxy.port, request("idle", 600, proxy), HELD)
    opened = load.told()["open"]
    grown = resident(proxy.pid) - before
    load.close()
    load.end()
    _until(lambda: not engines.streams())
    left_of_others = engines.streams()
    quiet = Load("quiet", proxy.port, request("quiet", 600, proxy), HELD)
    quiet.told()
    _until(lambda: engines.streams() >= HELD + left_of_others)
    quiet.close()
    gone = _until(lambda: engines.streams() <= left_of_others)
    quiet.end()
    return {
        MEMORY: grown / opened / 1024 if opened == HELD else None,
        GONE: gone,
        LEFT: engines.streams() - left_of_others,
    }


def _until(condition: Callable[[], bool]) -> float | None:
    """Return after how many seconds something was so; None when it was not."""
    begin = time.monotonic()
    while time.monotonic() < begin + GONE_WITHIN:
        if condition():
            return time.monotonic() - begin
        time.sleep(0.01)  # noqa: TID251 - other programs
    return None
