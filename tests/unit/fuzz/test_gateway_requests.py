"""Spoilt requests against the gateway, and that the fuzzer finds a reader that is wrong."""

import pytest

from llmgw.gateway.proxy.requests import RequestReader
from tests.fuzz.gateway.check import complaint
from tests.fuzz.gateway.mutate import example, parts

GROUP = 75


@pytest.mark.parametrize("begin", range(0, 300, GROUP))
async def test_no_spoilt_request_is_taken_for_one_that_h11_does_not_see(begin):
    for seed in range(begin, begin + GROUP):
        assert await complaint(parts(example(seed), seed)) is None, seed


async def test_a_reader_that_loses_a_byte_behind_an_offer_to_upgrade_is_found(monkeypatch):
    rightly = RequestReader._without_upgrade
    monkeypatch.setattr(
        RequestReader, "_without_upgrade", lambda self, rest: rightly(self, rest)[1:]
    )
    seeds = (seed for seed in range(300) if b"Upgrade" in example(seed))
    found = [await complaint(parts(example(seed), seed)) for seed in seeds]
    assert any(found)
