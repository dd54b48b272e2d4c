"""One scrape: gather at once, so that it is of one moment; make text of it in small bits."""

import asyncio
from collections.abc import Sequence

from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector

from llmgw.base.errors import Unreachable
from llmgw.control.metrics.families import FAMILIES
from llmgw.control.metrics.family import Family
from llmgw.control.metrics.packing import Text
from llmgw.control.metrics.page import Page
from llmgw.control.metrics.snapshot import Snapshot
from llmgw.control.plane import Plane

SLICE = 0.005
"""Seconds of work after which everybody else has a turn."""

MOST_SENT = 32
"""Scrapes that are answered at once; one more is refused."""

MOST_REST = 1.0
"""Seconds for which the next scrape waits at most after one was made."""


def gather(plane: Plane) -> Snapshot:
    """Return everything that a scrape shows, at this moment.

    It collects references to records that are there already, so it takes the loop for a few
    milliseconds on a thousand nodes.
    """
    observed = plane.fleet.observed()
    samples = {room.node.id: plane.fleet.sample(room.node.id) for room in observed.nodes}
    return Snapshot(
        now=plane.clock.now(),
        cluster=plane.cluster,
        server=plane.server_id,
        version=plane.version,
        leader=plane.leader,
        settled=observed.settled,
        term=plane.term,
        followers=plane.feed.followers,
        agents=plane.agents.count,
        rooms=observed.nodes,
        samples={node: sample for node, sample in samples.items() if sample is not None},
        replicas=observed.replicas,
        routes=plane.fleet.routes(),
        gateways=plane.gateways.all(),
        traffic=tuple(plane.gateways.traffic_by_model().values()),
        passes={name: one.last for name, one in plane.passes.items()},
        plan=plane.last_plan,
        models_of={one.id: one.model for one in observed.replicas if one.model is not None},
        flaps=plane.hardware.flaps(),
        evictions=dict(plane.executor.evictions),
        preemptions=dict(plane.executor.preemptions),
        unwritten=plane.writing.failing(),
        queued=plane.loads.queued(),
        gateway_loads=plane.loads.reports(),
        keys_over_quota=len(plane.gateways.quotas.over()),
        lost_together=len(observed.mass_loss.nodes) if observed.mass_loss is not None else 0,
    )


def render(seen: Snapshot, families: Sequence[Family] = FAMILIES) -> bytes:
    """Return the text of a snapshot at one go, without the families of the process."""
    page = Page(seen, families)
    for _ in page.steps():
        pass
    return b"".join(page.pieces)


def process_text() -> bytes:
    """Return the families of this process: its time on processors, memory and open files."""
    return generate_latest(ProcessCollector(registry=None))


class Scrapes:
    """Answers scrapes, one rendering at a time.

    Scrapes that come while one is made wait for the next one and share it: however many come at
    once, at most one is made and one is waited for. No scrape gets what was gathered before it
    came. After each rendering the loop is left to others for as long as that took: scrapes that
    come without a pause have half of it. A page has megabytes: so many are in memory at once as
    are being sent, and no more than `MOST_SENT`.
    """

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._making = asyncio.Lock()
        self._begun = 0
        self._open = 0
        """Scrapes that wait, or whose answer is being sent."""
        self._waiting = 0
        self._newest: Text | None = None
        self._number = 0
        """Which of those that were begun the newest is."""
        self._rested = 0.0
        """When the next one may be made, in monotonic seconds."""

    async def scrape(self) -> Text:
        """Return the text of this moment. Call `sent` when it is let go.

        Raises:
            Unreachable: too many are being sent already.
        """
        if self._open >= MOST_SENT:
            raise Unreachable(
                f"{MOST_SENT} scrapes are being answered already",
                hint="something scrapes and does not read its answers",
            )
        self._open += 1
        try:
            return await self._next()
        except BaseException:
            self._open -= 1
            raise

    def sent(self) -> None:
        """Note that an answer is not held any more."""
        self._open -= 1

    async def _next(self) -> Text:
        came = self._begun
        self._waiting += 1
        try:
            async with self._making:
                if self._newest is None or self._number <= came:
                    await self._rest()
                    self._begun += 1
                    number = self._begun
                    self._newest = await self._made()
                    self._number = number
                return self._newest
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._newest = None  # megabytes that nobody waits for

    async def _rest(self) -> None:
        left = self._rested - self._plane.clock.monotonic()
        if left > 0:
            await self._plane.clock.sleep(left)

    async def _made(self) -> Text:
        clock = self._plane.clock
        began = clock.monotonic()
        page = Page(gather(self._plane), FAMILIES)
        until = began + SLICE
        for _ in page.steps():
            if clock.monotonic() >= until:
                await clock.sleep(0)
                until = clock.monotonic() + SLICE
        now = clock.monotonic()
        self._rested = now + min(MOST_REST, now - began)
        return Text((*page.pieces, process_text()))
