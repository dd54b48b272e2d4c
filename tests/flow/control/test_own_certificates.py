"""The control plane's own certificates: there from the start, and renewed while it runs."""

import ssl
from pathlib import Path

from llmgw.base.system import SystemFiles
from llmgw.control.home import Home, OwnCertificates
from llmgw.control.tasks.certificates import RenewOwn
from llmgw.link.own import own_certificate
from llmgw.link.tls import files_in, server_context
from llmgw.pki.authority import GATEWAY, SERVER
from tests.fakes.clock import FakeClock
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import make_plane, opened

DAY = 86_400.0


async def test_what_is_past_two_thirds_of_its_life_is_renewed_and_taken_into_use(
    clock: FakeClock, tmp_path: Path
) -> None:
    store = MemoryStore()
    plane = make_plane(clock, store)
    async with opened(plane):
        home = Home.find(str(tmp_path / "state"), environ={"HOME": str(tmp_path)}, root=False)
        own = OwnCertificates(plane.certificates, SystemFiles())
        for directory, role in ((home.server, SERVER), (home.gateway, GATEWAY)):
            assert await own.see_to(directory, role, "cp-1", now=clock.now())
        context = server_context(files_in(home.server))
        renew = RenewOwn(own, home, context, clock=clock, server_id="cp-1", addresses=("cp-1",))
        first = _shown(home)
        await clock.advance(19 * DAY)
        assert await renew.run() == "no certificate of this machine is due"
        assert _shown(home) == first
        await clock.advance(2 * DAY)
        assert await renew.run() == ("renewed the control plane's and the gateway's certificate")
        assert not set(_shown(home)) & set(first)
        assert set(_shown(home)) < set(store.certificates)
        assert isinstance(context, ssl.SSLContext)
        assert await renew.run() == "no certificate of this machine is due"


async def test_a_denied_or_foreign_certificate_is_replaced(
    clock: FakeClock, tmp_path: Path
) -> None:
    plane = make_plane(clock, MemoryStore())
    async with opened(plane):
        own = OwnCertificates(plane.certificates, SystemFiles())
        directory = tmp_path / "gateway"
        assert await own.see_to(directory, GATEWAY, "cp-1", now=clock.now())
        assert not await own.see_to(directory, GATEWAY, "cp-1", now=clock.now())
        plane.certificates.deny((own_certificate(files_in(directory)).identity.serial,))
        assert await own.see_to(directory, GATEWAY, "cp-1", now=clock.now())
        assert await own.see_to(directory, GATEWAY, "cp-2", now=clock.now())


def _shown(home: Home) -> tuple[str, ...]:
    return tuple(
        own_certificate(files_in(directory)).identity.serial
        for directory in (home.server, home.gateway)
    )
