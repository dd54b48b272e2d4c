"""A scripted agent that dials over the real link, with a certificate that it got by joining."""

import asyncio
import random
from pathlib import Path

from llmgw.base.backoff import Backoff
from llmgw.base.clock import SystemClock
from llmgw.link.dial import AgentSide, Dialer
from llmgw.link.enrol import Own, TokenText, join, keep, make_key_and_csr
from llmgw.link.tls import client_context
from llmgw.model.link import AgentControl, CertificateRequest
from tests.fakes.scripted_agent import FakeAgent


class LinkedAgent(FakeAgent):
    """`start` dials for ever, `stop` ends it; `cut` severs the transport under an open stream."""

    def __init__(self, node: str, directory: Path, address: str) -> None:
        super().__init__(node)
        self.directory = directory
        self.address = address
        self.own: Own | None = None
        self.live: AgentSide | None = None
        self.beating = True
        self._key = b""
        self.dialer = Dialer(
            lambda: (self.address,),
            lambda: client_context(self._own().files),
            "agent",
            clock=SystemClock(),
            rng=random.Random(1),
            backoff=Backoff(first=0.05, most=0.2),
            silence=10.0,
        )
        self._task: asyncio.Task[None] | None = None

    async def join(self, token: str) -> None:
        self.own = await join(self.address, TokenText.parse(token), self.directory)

    def start(self) -> None:
        self._task = asyncio.create_task(self.dialer.run(self._serve))

    async def stop(self) -> None:
        self.dialer.stop()
        assert self._task is not None
        await asyncio.wait({self._task}, timeout=5)

    def cut(self) -> None:
        """Lose the connection, from below."""
        assert self.live is not None
        transport = self.live._transport
        assert transport is not None
        transport.abort()

    def renew(self) -> None:
        """Ask for the next certificate."""
        self._key, csr = make_key_and_csr("node", self.node, self._own().identity.cluster)
        self.say(certificate_request=CertificateRequest(csr_pem=csr))

    def take(self, control: AgentControl) -> None:
        super().take(control)
        issued = control.certificate
        if issued is not None:
            self.own = keep(self.directory, self._key, issued.certificate_pem, issued.authority_pem)

    async def _serve(self, stream: AgentSide) -> float | None:
        self.live = stream
        beats = asyncio.create_task(self._beats())
        try:
            return await self.session(stream)
        finally:
            beats.cancel()

    async def _beats(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            if self.beating:
                self.beat()

    def _own(self) -> Own:
        assert self.own is not None, "it has not joined"
        return self.own
