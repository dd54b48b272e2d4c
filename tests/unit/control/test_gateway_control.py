"""What an operator has a gateway do, and what a gateway asks for its users."""

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

import llmgw.control.quotas
from llmgw.base.errors import NotFound, Refused, Unreachable
from llmgw.control.gateway_restart import ACTION, restart_workers
from llmgw.control.plane import Plane
from llmgw.link.enrol import make_key_and_csr
from llmgw.model.faulty import Faulty
from llmgw.model.gateway import QUOTAS, RESTARTS, WorkersReport, WorkerStart
from llmgw.model.keys import QuotaFigures, QuotaReport, QuotaUse
from llmgw.model.link import CertificateIssued, CertificateRequest, GatewayMessage
from tests.fakes.clock import FakeClock, settle
from tests.fakes.memory_store import MemoryStore
from tests.fakes.planes import make_plane, opened, pass_time, running
from tests.unit.control.calling import Caller


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def plane(clock: FakeClock, store: MemoryStore) -> Plane:
    return make_plane(clock, store)


async def restart(plane: Plane, store: MemoryStore, name: str) -> None:
    await restart_workers(plane.gateways, store, plane.clock, name, actor="me")


def restarts(caller: Caller) -> list[str]:
    return [one.restart_workers.actor for one in caller.stream.sent if one.restart_workers]


async def test_a_gateway_is_told_to_restart_its_workers_and_it_is_on_record(plane, store):
    async with opened(plane):
        caller = await Caller(plane).register(features=(RESTARTS,))
        await restart(plane, store, "g1")
        assert restarts(caller) == ["me"]
        (entry, *_) = await store.audit()
        assert (entry.actor, entry.action, entry.subject) == ("me", ACTION, "g1")


async def test_who_cannot_be_told_is_refused_in_words_and_nothing_is_on_record(plane, store):
    async with opened(plane):
        before = await store.audit()
        with pytest.raises(NotFound, match="no gateway 'g9'"):
            await restart(plane, store, "g9")
        old = await Caller(plane).register()
        with pytest.raises(Refused, match=r"version 0\.1\.0, which can't be told") as refused:
            await restart(plane, store, "g1")
        assert "HUP" in str(refused.value.hint)
        old.stream.abort("gone")
        await settle()
        with pytest.raises(Unreachable, match="g1 is not connected"):
            await restart(plane, store, "g1")
        assert restarts(old) == []
        assert await store.audit() == before


async def test_what_cannot_be_put_on_record_is_not_done(plane, store, monkeypatch):
    async def away(entry: object) -> None:
        raise Unreachable("the store is away")

    async with opened(plane):
        caller = await Caller(plane).register(features=(RESTARTS,))
        monkeypatch.setattr(store, "put_audit", away)
        with pytest.raises(Unreachable):
            await restart(plane, store, "g1")
        assert restarts(caller) == []


async def test_a_gateway_s_workers_are_known_while_it_is_connected(plane):
    async with opened(plane):
        caller = await Caller(plane).register()
        assert plane.gateways.all()[0].started is None
        workers = (WorkerStart(worker=0, began=7.0), WorkerStart(worker=3, began=9.0))
        for gateway in ("g1", "g2"):  # what one says of another is not taken
            report = WorkersReport(gateway=gateway, workers=workers[: 1 + (gateway == "g1")])
            caller.stream.say(GatewayMessage(workers=report))
        await settle()
        assert plane.gateways.all()[0].started == workers
        caller.stream.abort("gone")
        await settle()
        assert plane.gateways.all()[0].started is None


async def issued(plane: Plane, caller: Caller) -> CertificateIssued:
    _, csr = make_key_and_csr("users", "g1", plane.cluster)
    request = CertificateRequest(csr_pem=csr, for_users=True)
    caller.stream.say(GatewayMessage(certificate_request=request))
    await settle()
    (answer,) = [one.certificate for one in caller.stream.sent if one.certificate]
    return answer


async def test_what_users_are_shown_names_what_the_settings_say_and_opens_nothing(plane):
    async with opened(plane):
        names = ["models.example.org", "*.example.org", "10.0.0.7"]
        await plane.settings.put("gateway.tls_names", names, actor="me")
        answer = await issued(plane, await Caller(plane).register())
        assert answer.for_users
        certificate = x509.load_pem_x509_certificate(answer.certificate_pem.encode())
        extensions = certificate.extensions
        found = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = set(found.get_values_for_type(x509.DNSName))
        assert hosts == {"models.example.org", "*.example.org", "g1"}
        assert {str(one) for one in found.get_values_for_type(x509.IPAddress)} == {"10.0.0.7"}
        (uri,) = found.get_values_for_type(x509.UniformResourceIdentifier)
        assert uri.endswith("/users/g1")
        purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(purposes) == [ExtendedKeyUsageOID.SERVER_AUTH]


@pytest.mark.parametrize("name", ["", "UPPER.example", "a b", "-x.example", "x" * 300, "*", "a..b"])
async def test_a_name_that_no_host_has_is_no_setting(plane, name):
    async with opened(plane):
        with pytest.raises(Faulty, match=r"gateway\.tls_names\[1\]"):
            await plane.settings.put("gateway.tls_names", ["good.example", name], actor="me")


async def test_slices_of_many_keys_are_told_in_several_messages(plane, clock, monkeypatch):
    monkeypatch.setattr(llmgw.control.quotas, "GRANT_MOST", 1)
    async with running(plane):
        limits = QuotaFigures(requests_per_minute=20)
        keys = [(await plane.keys.make(n, actor="me", limits=limits))[0] for n in ("a", "b")]
        caller = await Caller(plane).register(features=(QUOTAS,))
        used = QuotaFigures(requests_per_minute=6)
        uses = tuple(QuotaUse(key=key.id, used=used, held=limits) for key in keys)
        caller.stream.say(GatewayMessage(quotas=QuotaReport(gateway="g1", keys=uses)))
        await pass_time(clock, 13)
        told = [one.quotas for one in caller.stream.sent if one.quotas and one.quotas.slices]
        assert [len(one.slices) for one in told[:2]] == [1, 1]
        assert {one.key for grant in told for one in grant.slices} == {key.id for key in keys}
