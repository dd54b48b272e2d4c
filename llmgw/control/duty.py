"""What a control plane does as leader and as standby, in turns, for as long as it runs."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from llmgw.base.clock import Clock
from llmgw.base.periodic import Periodic
from llmgw.control.leader import Leader

LEADER = "leader"
ALWAYS = frozenset({LEADER, "certificates"})
"""Passes that run whether it leads or not; the others decide, and run while it leads."""

READS_NODES = 10.0
"""Seconds until a standby reads the nodes anew: it hears none, and must take none for lost."""


class Lead:
    """The pass `leader`: keeps the lease, or follows what whoever leads writes into the store.

    Args:
        leader: the lease.
        follow: reads what a standby answers from; told whether nodes are to be read anew too.
        clock: the time between two readings of the nodes.
    """

    def __init__(
        self, leader: Leader, follow: Callable[[bool], Awaitable[None]], clock: Clock
    ) -> None:
        self._leader = leader
        self._follow = follow
        self._clock = clock
        self._nodes_read: float | None = None

    def period(self) -> float:
        """Return the seconds until the lease has to be renewed or asked for."""
        return self._leader.period()

    async def run(self) -> str:
        """Keep the lease, and return how that stands."""
        words = await self._leader.keep()
        if self._leader.leading or self._leader.ending:
            self._nodes_read = None
            return words
        now = self._clock.monotonic()
        nodes_too = self._nodes_read is None or now - self._nodes_read >= READS_NODES
        await self._follow(nodes_too)
        if nodes_too:
            self._nodes_read = now
        return words


async def run(
    leader: Leader,
    passes: Mapping[str, Periodic],
    always: Mapping[str, Callable[[], Awaitable[None]]],
    leading: Mapping[str, Callable[[], Awaitable[None]]],
) -> None:
    """Run passes until cancelled: some always, the others while this control plane leads.

    Args:
        leader: whether it does.
        passes: by name; those in `ALWAYS` always run.
        always: what else always runs, by name.
        leading: what else runs while it leads.
    """
    async with asyncio.TaskGroup() as group:
        for name, work in always.items():
            group.create_task(_run(work), name=name)
        for name in sorted(ALWAYS & passes.keys()):
            group.create_task(passes[name].run_forever(), name=name)
        deciding = {name: one.run_forever for name, one in passes.items() if name not in ALWAYS}
        while True:
            leader.changed.clear()
            if leader.leading:
                await _while_leading(leader, {**leading, **deciding})
            else:
                await leader.changed.wait()


async def _while_leading(
    leader: Leader, works: Mapping[str, Callable[[], Awaitable[None]]]
) -> None:
    """Run all that decides until leadership is lost; raise what one of them raises."""
    tasks = [asyncio.create_task(_run(work), name=name) for name, work in works.items()]
    lost = asyncio.ensure_future(leader.changed.wait())
    try:
        done, _ = await asyncio.wait({lost, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {lost}:
            task.result()
    finally:
        for task in (lost, *tasks):
            task.cancel()
        await asyncio.gather(lost, *tasks, return_exceptions=True)


async def _run(work: Callable[[], Awaitable[None]]) -> None:
    await work()
