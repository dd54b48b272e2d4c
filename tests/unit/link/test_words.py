"""Errors cross the link in their words, and failures to connect say what to do."""

import socket
import ssl

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.address import host_and_port
from llmgw.base.errors import (
    Conflict,
    LlmgwError,
    NotFound,
    Refused,
    TimedOut,
    Unreachable,
    Unreadable,
    Usage,
)
from llmgw.link.connect import _refusal
from llmgw.link.guard import TooLarge
from llmgw.link.plain import check_loopback, claimed_identity
from llmgw.link.status import from_status, to_status

KINDS = [Conflict, NotFound, Refused, TimedOut, Unreachable, Unreadable, Usage]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hint", [None, "do this"])
def test_an_error_arrives_as_the_same_kind_with_its_words_and_hint(kind, hint):
    error = from_status(to_status(kind("what is wrong", hint=hint)), "10.0.0.1:7442")
    assert type(error) is kind
    assert (error.message, error.hint) == ("10.0.0.1:7442: what is wrong", hint)


def test_a_message_that_is_too_large_has_a_status_of_its_own():
    status = to_status(TooLarge("9 bytes"))
    assert status.status is Status.RESOURCE_EXHAUSTED
    assert isinstance(from_status(status, "p"), Refused)


@given(st.sampled_from(list(Status)), st.none() | st.text())
def test_every_status_becomes_an_error_for_a_person(status, words):
    error = from_status(GRPCError(status, words), "peer")
    assert isinstance(error, LlmgwError)
    assert error.message.startswith("peer: ")
    assert "\n" not in error.message


def test_words_that_would_not_fit_a_header_are_cut():
    message = to_status(Refused("x" * 10_000)).message
    assert message is not None
    assert len(message) == 2000


def verification(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    error.verify_message = "said so"
    return error


def wrong_version() -> ssl.SSLError:
    error = ssl.SSLError(1, "[SSL] wrong version")
    error.reason = "WRONG_VERSION_NUMBER"
    return error


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (verification(10), Refused, "the control plane's certificate ended"),
        (verification(9), Refused, "is not valid yet"),
        (verification(19), Refused, "another cluster's CA"),
        (verification(20), Refused, "another cluster's CA"),
        (verification(62), Refused, "does not cover 'head'"),
        (verification(64), Refused, "does not cover 'head'"),
        (verification(26), Refused, "no control plane's"),
        (verification(99), Refused, "not valid: said so"),
        (wrong_version(), Unreachable, "does not speak TLS 1.3"),
        (socket.gaierror(-2, "no"), Unreachable, "the name 'head' can't be resolved"),
        (ConnectionRefusedError(111, "no"), Unreachable, "connection refused"),
        (OSError("Multiple exceptions: [Errno 111] Connect"), Unreachable, "connection refused"),
        (ConnectionResetError(104, "no"), Unreachable, "lost while it was made"),
        (OSError(113, "no"), Unreachable, "not reachable: No route to host"),
    ],
)
def test_a_failure_to_connect_is_told_in_words(error, kind, words):
    told = _refusal(error, "head:7442", "head")
    assert type(told) is kind
    assert told.message.startswith("head:7442: ")
    assert words in told.message


def test_addresses_of_both_families_and_names_are_read():
    assert host_and_port("10.0.0.1:7442") == ("10.0.0.1", 7442)
    assert host_and_port("[fe80::1]:7442") == ("fe80::1", 7442)
    assert host_and_port("head.example:1") == ("head.example", 1)


@pytest.mark.parametrize("host", ["10.0.0.1", "0.0.0.0", "::", "head", ""])
def test_plaintext_leaves_no_machine(host):
    with pytest.raises(Usage, match="for loopback alone"):
        check_loopback(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_plaintext_is_for_loopback(host):
    check_loopback(host)


def test_a_peer_without_tls_says_who_it_is():
    identity = claimed_identity({"llmgw-identity": "llmgw://north/node/gpu-01"})
    assert (identity.role, identity.id) == ("node", "gpu-01")
    for nothing in (None, {}, {"llmgw-identity": "gpu-01"}, {"llmgw-identity": b"x"}):
        with pytest.raises(Refused):
            claimed_identity(nothing)
