"""What the console asks of the admin API, through the real client: one list, one open watch."""

import asyncio
import random
from collections.abc import AsyncIterator
from urllib.parse import parse_qs

import httpx
import msgspec

from llmgw.base.clock import SystemClock
from llmgw.base.secrets import Secret
from llmgw.client.asyncclient import AsyncClient
from llmgw.client.contexts import Context
from llmgw_tui.app import ConsoleApp
from llmgw_tui.console import Look
from llmgw_tui.store.fleet import TOPICS
from tests.fakes.conditions import past
from tests.fakes.feed import built
from tests.fakes.fleets import cpu_serving
from tests.flow.tui.stage import NEVER
from tests.waiting import wait_until


class AdminApi(httpx.AsyncBaseTransport):
    """Answers list, watch and logs of a recorded fleet, and remembers every request."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.open: list[str] = []
        self.events: asyncio.Queue[bytes] = asyncio.Queue()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        self.requests.append(path)
        assert request.headers["Authorization"] == "Bearer t0k3n"
        if path == "/list":
            return httpx.Response(200, content=self._listing(request.url.query.decode()))
        if path == "/nodes/atlas/history":
            return httpx.Response(200, content=msgspec.json.encode(past(None, 60, 0.0)))
        return httpx.Response(200, content=self._stream(path))

    def _listing(self, query: str) -> bytes:
        topics = parse_qs(query)["topics"][0].split(",")
        fleet = cpu_serving().topics
        return msgspec.json.encode(
            {
                "position": {"epoch": "e", "number": 7},
                "topics": {t: [built(r) for r in fleet.get(t, {}).values()] for t in topics},
                "ids": {t: list(fleet.get(t, {})) for t in topics},
            }
        )

    async def _stream(self, path: str) -> AsyncIterator[bytes]:
        self.open.append(path)
        try:
            yield b": hello\n\n"
            if path.endswith("/follow"):
                yield b'data: {"lines": ["from the agent"], "dropped": 0}\n\n'
                await asyncio.Event().wait()
            while True:
                yield await self.events.get()
        finally:
            self.open.remove(path)

    def change(self, topic: str, id_: str, record: object) -> None:
        change = {"topic": topic, "id": id_, "record": record}
        event = {"position": {"epoch": "e", "number": 8}, "listing": False, "changes": [change]}
        self.events.put_nowait(b"data: " + msgspec.json.encode(event) + b"\n\n")


async def test_one_list_and_one_watch_a_past_for_an_opened_node_and_a_log_only_while_it_shows() -> (
    None
):
    api = AdminApi()
    context = Context(name="lab", server="http://127.0.0.1:7441", token=Secret("t0k3n"))
    client = AsyncClient(context, clock=SystemClock(), rng=random.Random(1), transport=api)
    app = ConsoleApp(client, SystemClock(), Look(flush=NEVER))
    async with app.run_test(size=(80, 24)) as pilot:
        fleet = app.desk.fleet
        await wait_until(lambda: "atlas" in fleet.nodes)
        await wait_until(lambda: api.open == ["/watch"])
        for key in ("1", "2", "enter", "escape", "3", "enter", "4", "enter"):
            await pilot.press(key)
            app.desk.flush()
        asked = ["/list", "/watch", "/nodes/atlas/history"]
        await wait_until(lambda: api.requests == asked)
        api.change("nodes", "zeus", {"id": "zeus", "liveness": "ready"})
        await wait_until(lambda: "zeus" in fleet.nodes)
        await pilot.press("5")
        await wait_until(lambda: "/nodes/atlas/logs/follow" in api.open)
        await pilot.press("1")
        await wait_until(lambda: api.open == ["/watch"])
        assert api.requests == [*asked, "/nodes/atlas/logs/follow"]
    assert api.open == []


def test_what_is_followed_is_what_screens_show() -> None:
    assert set(TOPICS) == {
        "nodes", "samples", "replicas", "models", "routes", "events", "settings",
    }  # fmt: skip
