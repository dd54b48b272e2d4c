"""One-time tokens hold the cluster's hash and a secret that is kept nowhere; engine keys repeat."""

import hashlib

from llmgw.link.enrol import TokenText
from llmgw.model.keys import JoinToken
from llmgw.pki.authority import Authority
from llmgw.pki.tokens import engine_key, make_join_token, secret_matches

NOW = 1_800_000_000.0


def make(authority: Authority, fill: bytes = b"\x01") -> tuple[JoinToken, str]:
    return make_join_token(
        authority,
        role="node",
        subject="gpu-01",
        now=NOW,
        lifetime=3600.0,
        random_bytes=lambda count: fill * count,
    )


def test_a_token_is_read_by_the_machine_that_joins():
    authority = Authority.create("north", NOW)
    record, text = make(authority)
    read = TokenText.parse(text)
    assert (read.authority, read.id) == (authority.sha256, record.id)
    assert secret_matches(record, read.secret.reveal())


def test_the_record_keeps_a_hash_and_not_the_secret():
    record, text = make(Authority.create("north", NOW))
    secret = text.rsplit(".", 1)[1]
    assert record.sha256 == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in repr(record)
    assert (record.role, record.subject, record.expires) == ("node", "gpu-01", NOW + 3600.0)
    assert not secret_matches(record, secret + "x")


def test_two_tokens_differ():
    authority = Authority.create("north", NOW)
    texts = {
        make_join_token(authority, role="node", subject="a", now=NOW, lifetime=1.0)[1]
        for _ in range(2)
    }
    assert len(texts) == 2


def test_a_replicas_key_repeats_and_is_no_other_replicas():
    assert engine_key(b"secret", "a-1") == engine_key(b"secret", "a-1")
    keys = {engine_key(b"secret", "a-1"), engine_key(b"secret", "a-2"), engine_key(b"other", "a-1")}
    assert len(keys) == 3
