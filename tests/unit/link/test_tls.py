"""Files that TLS is made of: what is wrong with them is one line; renewal is due at two thirds."""

import ssl

import pytest

from llmgw.base.errors import NotFound, Refused, Unreadable
from llmgw.link.identity import Identity
from llmgw.link.own import own_certificate, renew_at, why_not_accepted
from llmgw.link.tls import TlsFiles, client_context, files_in, server_context
from llmgw.pki.authority import Authority

NOW = 1_800_000_000.0


@pytest.fixture
def files(tmp_path):
    authority = Authority.create("north", NOW)
    authority.issue(tmp_path, role="node", subject="gpu-01", now=NOW, lifetime=900.0)
    return files_in(tmp_path)


def test_contexts_speak_tls_1_3_and_http_2_alone(files):
    for context in (server_context(files), client_context(files)):
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert server_context(files).verify_mode is ssl.CERT_OPTIONAL
    assert client_context(files).verify_mode is ssl.CERT_REQUIRED
    assert client_context(files).check_hostname


def test_a_missing_file_is_told_with_what_to_do(files):
    files.authority.unlink()
    with pytest.raises(NotFound, match=r"authority.pem: no such file") as missing:
        client_context(files)
    assert "--join TOKEN" in str(missing.value.hint)


def test_a_key_that_others_may_read_is_refused_with_the_command(files):
    files.key.chmod(0o644)
    with pytest.raises(Refused, match="mode 644 lets others in") as refused:
        client_context(files)
    assert "chmod 600" in str(refused.value.hint)


def test_a_file_that_is_something_else_is_told(files):
    files.authority.write_text("nothing")
    with pytest.raises(Unreadable, match=r"authority.pem: not a certificate"):
        client_context(files)


def test_a_key_of_another_certificate_is_told(files, tmp_path):
    other = tmp_path / "other"
    Authority.create("n", NOW).issue(other, role="node", subject="b", now=NOW, lifetime=900.0)
    mixed = TlsFiles(files.certificate, files_in(other).key, files.authority)
    with pytest.raises(Unreadable, match="the key is not the certificate's"):
        client_context(mixed)


def test_an_own_certificate_is_renewed_at_two_thirds(files):
    own = own_certificate(files)
    assert own.identity.id == "gpu-01"
    assert own.begins == NOW - 300.0
    assert own.renew_at == own.begins + (own.identity.ends - own.begins) * 2 / 3
    identity = Identity(cluster="c", role="node", id="a", serial="1", ends=NOW + 90.0)
    assert renew_at(identity, 90.0) == NOW + 60.0


def test_an_own_certificate_that_is_not_there_or_not_ours_is_told(files):
    key = files.certificate.read_text().partition("-----BEGIN CERTIFICATE-----")[0]
    authority = files.authority.read_text()
    files.certificate.write_text(key + authority)
    with pytest.raises(Unreadable, match=r"is not llmgw://"):
        own_certificate(files)
    files.certificate.write_text(key)
    with pytest.raises(Unreadable, match="not a certificate in PEM"):
        own_certificate(files)
    files.certificate.unlink()
    with pytest.raises(NotFound, match="no such file"):
        own_certificate(files)


def test_why_a_certificate_is_not_accepted_is_found_on_this_side(files):
    context = client_context(files)
    assert why_not_accepted(context, "head:1", NOW) is None
    assert why_not_accepted(None, "head:1", NOW) is None
    ended = why_not_accepted(context, "head:1", NOW + 1000.0)
    assert str(ended) == "head:1: this machine's certificate ended"
    files.authority.write_text(Authority.create("south", NOW).certificate_pem)
    stranger = why_not_accepted(context, "head:1", NOW)
    assert str(stranger) == "head:1: this machine's certificate is of another cluster's CA"
