"""A certificate names one role and one id, and whoever shows it is that and nothing else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Refused, Unreadable
from llmgw.link.identity import (
    ROLES,
    Identity,
    check_id,
    check_role,
    identity_of,
    read_uri,
    uri_of,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)


def shown(*uris: str, serial: str = "0A1B") -> dict[str, Any]:
    ends = "Jan  5 09:34:43 2028 GMT"
    names = [("DNS", "localhost"), *(("URI", uri) for uri in uris)]
    return {"subjectAltName": tuple(names), "serialNumber": serial, "notAfter": ends}


@given(TEXT, st.sampled_from(ROLES), TEXT)
def test_any_cluster_and_id_come_back_from_their_uri(cluster, role, subject):
    uri = uri_of(cluster, role, subject)
    assert uri.isascii()
    assert read_uri(uri) == (cluster, role, subject)


@given(st.text())
def test_no_text_makes_reading_raise_anything_but_unreadable(text):
    for uri in (text, "llmgw://" + text):
        try:
            read_uri(uri)
        except Unreadable:
            continue


def test_a_certificate_is_read_with_its_serial_as_the_store_writes_it():
    identity = identity_of(shown("llmgw://north/node/gpu-01", serial="0A1B"))
    assert identity == Identity(
        cluster="north", role="node", id="gpu-01", serial="a1b", ends=1_830_677_683.0
    )
    assert str(identity) == "node gpu-01"
    begun = shown("llmgw://north/node/gpu-01") | {"notBefore": "Jan  4 09:34:43 2028 GMT"}
    assert identity_of(begun).begins == identity.ends - 86_400


@pytest.mark.parametrize("certificate", [None, {}])
def test_no_certificate_is_told_with_what_to_do(certificate):
    with pytest.raises(Refused, match="no certificate was shown") as refused:
        identity_of(certificate)
    assert "--join TOKEN" in str(refused.value.hint)


@pytest.mark.parametrize(
    "uris",
    [
        (),
        ("https://example",),
        ("llmgw://north/node/a", "llmgw://north/node/b"),
        ("llmgw://north/root/a",),
        ("llmgw://north/node",),
        ("llmgw://north/node/a/b",),
        ("llmgw://north//a",),
    ],
)
def test_a_certificate_that_does_not_name_one_identity_is_refused(uris):
    with pytest.raises(Refused, match="certificate"):
        identity_of(shown(*uris))


def test_a_role_opens_its_own_service_alone():
    identity = identity_of(shown("llmgw://north/gateway/gw-1"))
    check_role(identity, "gateway")
    for role in ("node", "server", "admin"):
        with pytest.raises(Refused, match=f"takes those of role {role} alone"):
            check_role(identity, role)


def test_an_id_speaks_for_itself_alone():
    identity = identity_of(shown("llmgw://north/node/gpu-01"))
    check_id(identity, "gpu-01")
    for other in ("gpu-02", "", "GPU-01", "gpu-01 "):
        with pytest.raises(Refused, match="the certificate is for node gpu-01"):
            check_id(identity, other)
