"""The authority signs what it is told to and nothing that a request asks for beyond."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from llmgw.base.errors import NotFound, Refused, Unreadable
from llmgw.link.enrol import make_key_and_csr
from llmgw.link.tls import files_in
from llmgw.pki.authority import Authority, Signed

NOW = 1_800_000_000.0
DAY = 86400.0


@pytest.fixture(scope="module")
def authority():
    return Authority.create("north", NOW)


def sign(
    authority: Authority,
    role: str = "node",
    subject: str = "gpu-01",
    csr: str | None = None,
    **more: Any,
) -> Signed:
    csr = csr or make_key_and_csr(role, subject, authority.cluster)[1]
    options: dict[str, Any] = {"now": NOW, "lifetime": DAY, **more}
    return authority.sign(csr, role=role, subject=subject, **options)


def read(signed: Signed) -> x509.Certificate:
    return x509.load_pem_x509_certificate(signed.certificate_pem.encode())


def names(certificate: x509.Certificate, kind: type[Any]) -> list[Any]:
    alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return list(alternatives.value.get_values_for_type(kind))


def test_a_certificate_carries_role_and_id_as_a_uri(authority):
    signed = sign(authority, subject="gpu-01")
    certificate = read(signed)
    assert names(certificate, x509.UniformResourceIdentifier) == ["llmgw://north/node/gpu-01"]
    assert signed.serial == format(certificate.serial_number, "x")
    assert signed.ends == NOW + DAY == certificate.not_valid_after_utc.timestamp()
    assert signed.begins == certificate.not_valid_before_utc.timestamp()


def test_an_id_that_is_no_url_part_is_quoted(authority):
    certificate = read(sign(authority, role="gateway", subject="a/b c"))
    assert names(certificate, x509.UniformResourceIdentifier) == ["llmgw://north/gateway/a%2Fb%20c"]


def test_a_common_name_is_cut_and_the_uri_is_not(authority):
    long = "n" * 253
    certificate = read(sign(authority, subject=long))
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    assert common == "n" * 64
    assert names(certificate, x509.UniformResourceIdentifier) == [f"llmgw://north/node/{long}"]


def test_a_certificate_is_signed_by_the_authority_and_can_sign_nothing(authority):
    certificate = read(sign(authority))
    issuer = x509.load_pem_x509_certificate(authority.certificate_pem.encode())
    certificate.verify_directly_issued_by(issuer)
    basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert not basic.value.ca
    assert certificate.not_valid_before_utc < datetime.fromtimestamp(NOW, UTC)


def test_only_a_control_planes_certificate_may_be_a_servers(authority):
    for role in ("node", "gateway", "admin"):
        uses = read(sign(authority, role=role)).extensions
        usage = uses.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    uses = read(sign(authority, role="server")).extensions
    assert (
        ExtendedKeyUsageOID.SERVER_AUTH in uses.get_extension_for_class(x509.ExtendedKeyUsage).value
    )


def test_a_control_planes_certificate_covers_its_addresses_and_loopback(authority):
    certificate = read(sign(authority, role="server", addresses=("10.0.0.1", "head.example")))
    addresses = [str(address) for address in names(certificate, x509.IPAddress)]
    assert addresses == ["10.0.0.1", "127.0.0.1", "::1"]
    assert names(certificate, x509.DNSName) == ["head.example", "localhost"]


def test_an_address_that_is_none_is_refused(authority):
    with pytest.raises(Unreadable, match="neither an IP address nor a host name"):
        sign(authority, role="server", addresses=("a" * 70,))


def test_a_certificate_never_outlives_its_authority(authority):
    signed = sign(authority, lifetime=30 * 365 * DAY)
    issuer = x509.load_pem_x509_certificate(authority.certificate_pem.encode())
    assert signed.ends == issuer.not_valid_after_utc.timestamp()


def test_an_authority_lives_ten_years(authority):
    issuer = x509.load_pem_x509_certificate(authority.certificate_pem.encode())
    lives = issuer.not_valid_after_utc - datetime.fromtimestamp(NOW, UTC)
    assert timedelta(days=3650) < lives < timedelta(days=3660)


def test_certificates_of_a_minute_are_signed_as_any_other(authority):
    assert sign(authority, lifetime=60.0).ends == NOW + 60.0


def request(key: Any) -> str:
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "anything")])
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def test_a_request_for_another_role_or_id_is_refused(authority):
    csr = make_key_and_csr("node", "gpu-02", "north")[1]
    with pytest.raises(Refused, match=r"is for llmgw://north/node/gpu-02, .*/node/gpu-01"):
        sign(authority, subject="gpu-01", csr=csr)
    with pytest.raises(Refused, match="signing request is for"):
        sign(authority, role="gateway", subject="gpu-02", csr=csr)


def test_names_that_a_request_asks_for_are_not_taken_over(authority):
    csr = request(ec.generate_private_key(ec.SECP256R1()))
    certificate = read(sign(authority, csr=csr))
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    assert common == "gpu-01"


@pytest.mark.parametrize(
    "key",
    [
        lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
        lambda: ec.generate_private_key(ec.SECP192R1()),
    ],
)
def test_a_key_of_another_kind_is_refused(authority, key):
    with pytest.raises((Refused, Unreadable), match=r"elliptic curve key|signing request"):
        sign(authority, csr=request(key()))


def test_a_request_whose_signature_was_changed_is_refused(authority):
    good = x509.load_pem_x509_csr(make_key_and_csr("node", "gpu-01", "north")[1].encode())
    der = bytearray(good.public_bytes(serialization.Encoding.DER))
    der[-1] ^= 1
    broken = x509.load_der_x509_csr(bytes(der)).public_bytes(serialization.Encoding.PEM).decode()
    with pytest.raises((Refused, Unreadable), match="signing request"):
        sign(authority, csr=broken)


@pytest.mark.parametrize("text", ["", "nothing", "-----BEGIN CERTIFICATE REQUEST-----\nAA==\n"])
def test_what_is_no_request_is_refused(authority, text):
    with pytest.raises(Unreadable, match="not a certificate signing request"):
        authority.sign(text, role="node", subject="a", now=NOW, lifetime=DAY)


def test_a_role_that_is_none_is_refused(authority):
    with pytest.raises(Unreadable, match="'root' is not one of node, gateway, server, admin"):
        sign(authority, role="root")


def test_an_authority_comes_back_from_its_files_which_are_private(authority, tmp_path):
    authority.save(tmp_path / "ca")
    again = Authority.load(tmp_path / "ca")
    assert (again.sha256, again.cluster) == (authority.sha256, "north")
    assert {p.stat().st_mode & 0o777 for p in (tmp_path / "ca").iterdir()} == {0o600}
    assert (tmp_path / "ca").stat().st_mode & 0o777 == 0o700
    read(sign(again)).verify_directly_issued_by(
        x509.load_pem_x509_certificate(authority.certificate_pem.encode())
    )


def test_a_cluster_may_be_called_anything(tmp_path):
    Authority.create("Süd / 1 " + "x" * 80, NOW).save(tmp_path)
    assert Authority.load(tmp_path).cluster == "Süd / 1 " + "x" * 80


def test_an_authority_that_is_not_there_or_not_whole_is_told_in_words(authority, tmp_path):
    with pytest.raises(NotFound, match=r"authority.key: no such file"):
        Authority.load(tmp_path)
    authority.save(tmp_path)
    (tmp_path / "authority.pem").write_text("nothing")
    with pytest.raises(Unreadable, match="not a key and its certificate"):
        Authority.load(tmp_path)
    (tmp_path / "authority.pem").unlink()
    with pytest.raises(NotFound, match=r"authority.pem: no such file"):
        Authority.load(tmp_path)
    (tmp_path / "authority.pem").write_text(Authority.create("b", NOW).certificate_pem)
    with pytest.raises(Unreadable, match=r"authority.key is not the key of authority.pem"):
        Authority.load(tmp_path)
    (tmp_path / "authority.pem").write_text(authority.certificate_pem)
    (tmp_path / "authority.key").chmod(0o640)
    with pytest.raises(Refused, match="mode 640 lets others in"):
        Authority.load(tmp_path)


def test_an_issued_identity_lies_where_the_link_reads_it(authority, tmp_path):
    signed = authority.issue(tmp_path, role="server", subject="head", now=NOW, lifetime=DAY)
    files = files_in(tmp_path)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    assert signed.certificate_pem in files.certificate.read_text()
    assert "PRIVATE KEY" in files.key.read_text()
    assert files.authority.read_text() == authority.certificate_pem
