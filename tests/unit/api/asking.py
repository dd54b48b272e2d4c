"""Asking the application without a socket, and one good request for every operation."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.types import Message

from llmgw.control.api.operation import Operation
from tests.fakes.plane import FakePlane

MODEL = {"name": "tiny", "profiles": [{"engine": "simulated"}]}

PATHS: dict[str, dict[str, str]] = {
    "node": {"id": "atlas"},
    "node_history": {"id": "atlas"},
    "remove_node": {"id": "atlas"},
    "wish": {"id": "atlas"},
    "logs": {"id": "atlas"},
    "follow_logs": {"id": "atlas"},
    "replica": {"id": "gemma3-270m-7k2m9x"},
    "model": {"name": "gemma3-270m"},
    "put_model": {"name": "tiny"},
    "remove_model": {"name": "gemma3-270m"},
    "model_history": {"name": "gemma3-270m"},
    "explain": {"name": "gemma3-270m"},
    "job": {"id": "job-0000m1"},
    "cancel_job": {"id": "job-0000m1"},
    "retry_job": {"id": "job-0000m2"},
    "change_key": {"id": "KEY"},
    "remove_key": {"id": "KEY"},
    "remove_token": {"id": "TOKEN"},
    "cancel_request": {"id": "req-a-1"},
    "restart": {"id": "gw-1"},
}
"""What stands in an operation's path; `KEY` and `TOKEN` are replaced by ids that exist."""

BODIES: dict[str, Any] = {
    "wish": {"wish": "cordoned"},
    "put_model": MODEL,
    "plan_model": MODEL,
    "make_job": {"kind": "serve", "model": MODEL, "version": 0},
    "make_key": {"name": "batch", "models": ["gemma3-270m"], "expires_in": 3600},
    "change_key": {"tokens_per_day": 100_000},
    "put_setting": {"path": "link.lost_after", "value": 90},
    "make_token": {"role": "read", "name": "grafana"},
    "cancel_requests": {"ids": ["req-a-1", "req-a-9"]},
    "make_join_token": {"role": "node", "subject": "borea"},
}

WHATEVER = {"If-Match": "*"}
"""What replaces something needs it; what does not is sent it in vain."""

QUERIES: dict[str, str] = {
    "list_topics": "topics=nodes,samples,replicas,routes,models,keys,settings,events,jobs",
    "watch_topics": "topics=nodes,routes",
    "logs": "lines=1",
    "usage_sums": "by=day,key",
}


def url(operation: Operation, ids: dict[str, str] | None = None) -> str:
    """Return a good address for an operation."""
    path = operation.path
    for name, wanted in PATHS.get(operation.name, {}).items():
        value = (ids or {}).get(wanted, wanted)
        path = path.replace(f"{{{name}}}", value).replace(f"{{{name}:path}}", value)
    query = QUERIES.get(operation.name)
    return f"{path}?{query}" if query else path


def removable(plane: FakePlane) -> dict[str, str]:
    """Return the ids of a key and of a token that may be removed, for `url`."""
    metrics = next(token for token in plane.tokens.all() if token.role == "metrics")
    return {"KEY": plane.keys.all()[0].id, "TOKEN": metrics.id}


def client(app: Starlette, token: str | None = None, peer: str = "10.0.0.9") -> httpx.AsyncClient:
    """Return a client that speaks to the application itself, as if from that address."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    transport = httpx.ASGITransport(app, client=(peer, 40000))
    return httpx.AsyncClient(transport=transport, base_url="http://admin", headers=headers)


@dataclass
class Streamed:
    """One request whose answer goes on: an ASGI conversation that a test holds."""

    app: Starlette
    target: str
    token: str
    method: str = "GET"
    messages: list[Message] = field(default_factory=list)
    _reading: asyncio.Event = field(default_factory=asyncio.Event)
    _gone: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: bool = False
    task: "asyncio.Task[None] | None" = None

    async def __aenter__(self) -> "Streamed":
        self.read()
        path, _, query = self.target.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"authorization", f"Bearer {self.token}".encode())],
            "client": ("10.0.0.9", 40000),
            "server": ("127.0.0.1", 7441),
        }
        self.task = asyncio.ensure_future(self.app(scope, self._receive, self._send))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leave()
        self.read()
        if self.task is not None:
            await asyncio.wait_for(asyncio.gather(self.task, return_exceptions=True), 5)

    def stall(self) -> None:
        """Do not read: nothing that is sent goes through."""
        self._reading.clear()

    def read(self) -> None:
        """Read what is sent."""
        self._reading.set()

    def leave(self) -> None:
        """Close the connection, as a client that is gone."""
        self._gone.set()

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await self._reading.wait()
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def body(self) -> bytes:
        return b"".join(m.get("body", b"") for m in self.messages[1:])

    @property
    def events(self) -> list[Any]:
        """Return the data of all events so far."""
        blocks = self.body.decode().split("\n\n")
        return [json.loads(b.removeprefix("data: ")) for b in blocks if b.startswith("data: ")]

    @property
    def over(self) -> bool:
        """Say whether the answer was ended properly."""
        return bool(self.messages) and self.messages[-1].get("more_body") is False
