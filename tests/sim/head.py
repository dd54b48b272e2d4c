"""A simulated control plane: a machine and the `Plane`s that come and go on it."""

import asyncio
import contextvars
import random
from collections.abc import Callable, Set
from functools import partial

from llmgw.base.errors import LlmgwError, Refused
from llmgw.control.plane import Plane
from llmgw.control.server import BACK_AFTER, FIRST_MESSAGE
from llmgw.control.world import World
from llmgw.link.server import AgentStream, LinkServer
from llmgw.local.sim.clock import SimClock
from llmgw.local.sim.loop import Life, SimLoop
from llmgw.local.sim.network import Network
from llmgw.pki.authority import Authority
from llmgw.store.memory import Memory, MemoryStore
from tests.sim.node import CLUSTER

PORT = 7442
RESTART_AFTER = 5.0
AUTHORITY = Authority.create(CLUSTER, 1_800_000_000.0)
"""One for all runs: making one is slow and says nothing."""


class SimHead:
    """A machine that runs a control plane."""

    def __init__(
        self,
        loop: SimLoop,
        network: Network,
        memory: Memory,
        removed: Set[str],
        number: int,
        seed: str,
    ) -> None:
        self.name = f"head-{number}"
        self.host = f"127.0.{number}.1"
        self.address = f"{self.host}:{PORT}"
        self.clock = SimClock(loop)
        self.plane: Plane | None = None
        self.life: Life | None = None
        self.starts = 0
        self.since = 0.0
        self.store_away: Exception | None = None
        self.made: Callable[[Plane], None] = lambda _plane: None
        self._rng = random.Random(f"{seed}/{self.name}")
        self._loop = loop
        self._network = network
        self._memory = memory
        self._removed = removed
        self._ending: asyncio.Event | None = None

    def start(self) -> None:
        """Start a control plane."""
        assert self.life is None, "it runs"
        self.starts += 1
        self.life = Life(f"control plane {self.name}", self.host)
        self._main = self._loop.live(self.life, self._run(self.life))

    def kill(self) -> None:
        """End it as SIGKILL does."""
        if self.life is not None:
            self._loop.kill(self.life)
            self._network.end(self.life)
            self.life = self.plane = None

    def stop(self) -> None:
        """Ask it to end in order, as SIGTERM does."""
        if self._ending is not None:
            self._ending.set()

    def _again(self) -> None:
        if self.life is None:
            self.start()

    def _reach(self) -> None:
        if self.store_away is not None:
            raise self.store_away

    async def _let_in(self, plane: Plane, stream: AgentStream) -> None:
        """Serve an agent, unless its certificate is denied: in plaintext there is none to deny."""
        if stream.identity is not None and stream.identity.id in self._removed:
            raise Refused("its certificate is denied")
        await plane.agents.on_agent(stream)

    async def _run(self, life: Life) -> None:
        rng = random.Random(f"{self._rng.random()}")
        plane = Plane(
            store=MemoryStore(self._memory, reach=self._reach),
            authority=AUTHORITY,
            world=World(clock=self.clock, rng=rng, entropy=rng.randbytes),
            server_id=self.name,
            version="0.1.0",
            addresses=lambda: (self.address,),
        )
        self.made(plane)
        self._ending = asyncio.Event()
        try:
            await plane.open()
        except LlmgwError:
            # The process ends; its service manager starts it again.
            self.life = None
            self._loop.call_later(RESTART_AFTER, self._again, context=contextvars.Context())
            return
        link = LinkServer(
            None,
            on_agent=partial(self._let_in, plane),
            on_gateway=plane.gateways.on_gateway,
            on_join=plane.joining,
            clock=self.clock,
            silence=FIRST_MESSAGE,
            denied=plane.certificates.denied,
            bind=self._network.bind,
        )
        await link.start(self.host, PORT)
        self.plane = plane
        self.since = self._loop.time()
        passes = asyncio.create_task(plane.run(), name="passes")
        try:
            ending = asyncio.ensure_future(self._ending.wait())
            await asyncio.wait({ending, passes}, return_when=asyncio.FIRST_COMPLETED)
            if passes.done():
                passes.result()
            plane.leadership.resign()
            await link.stop("it was told to", BACK_AFTER)
            passes.cancel()
            await asyncio.gather(passes, return_exceptions=True)
            await plane.close()
        finally:
            if self.life is life:
                self.life = self.plane = None
