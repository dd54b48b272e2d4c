"""What every store must do with usage, and that what it has outlives it."""

import asyncio

import msgspec
import pytest

from llmgw.base.errors import Refused
from llmgw.model.keys import UsageOver
from llmgw.store.interface import Store
from tests.flow.store import samples
from tests.flow.store.conformance import Place, refused

HOUR = 3600.0


async def used(store: Store) -> list[tuple[float, str, str, int]]:
    rows = await store.usage(since=0.0, until=1e9)
    return [(row.hour, row.key, row.model, row.requests) for row in rows]


class UsageConformance:
    async def test_a_report_adds_what_is_beyond_the_last_one(self, store: Store):
        assert await store.apply_usage(samples.report(1, samples.totals(3)), at=10.0)
        assert await store.apply_usage(samples.report(2, samples.totals(5)), at=20.0)
        assert await used(store) == [(0.0, "k1", "qwen", 5)]
        (row,) = await store.usage(since=0.0, until=HOUR)
        assert (row.prompt_tokens, row.completion_tokens, row.failed) == (50, 100, 0)

    async def test_a_report_that_comes_again_or_late_changes_nothing(self, store: Store):
        await store.apply_usage(samples.report(2, samples.totals(5)), at=10.0)
        assert not await store.apply_usage(samples.report(2, samples.totals(5)), at=10.0)
        assert not await store.apply_usage(samples.report(1, samples.totals(9)), at=10.0)
        assert await used(store) == [(0.0, "k1", "qwen", 5)]

    async def test_a_report_sent_by_many_at_once_counts_once(self, store: Store):
        report = samples.report(1, samples.totals(5))
        taken = await asyncio.gather(*(store.apply_usage(report, at=1.0) for _ in range(10)))
        assert sum(taken) == 1
        assert await used(store) == [(0.0, "k1", "qwen", 5)]

    async def test_what_is_over_counts_from_zero_and_loses_nothing(self, store: Store):
        await store.apply_usage(samples.report(1, samples.totals(5)), at=10.0)
        over = (UsageOver(key="k1", model="qwen", sequence=2),)
        forgets = msgspec.structs.replace(samples.report(2), totals=(), over=over)
        assert await store.apply_usage(forgets, at=20.0)
        assert await used(store) == [(0.0, "k1", "qwen", 5)]
        # Nobody has told the gateway that it was heard: it says it again, and what is new.
        again = msgspec.structs.replace(samples.report(3, samples.totals(2)), over=over)
        assert await store.apply_usage(again, at=30.0)
        again = msgspec.structs.replace(samples.report(4, samples.totals(3)), over=over)
        assert await store.apply_usage(again, at=30.0)
        assert await used(store) == [(0.0, "k1", "qwen", 5 + 3)]
        fallen = samples.report(5, samples.totals(1))
        assert "fell" in await refused(store.apply_usage(fallen, at=30.0), Refused)

    async def test_what_one_worker_says_is_over_stays_with_the_others(self, store: Store):
        for worker in (0, 1):
            await store.apply_usage(samples.report(1, samples.totals(5), worker=worker), at=1.0)
        over = (UsageOver(key="k1", model="qwen", sequence=2),)
        both = msgspec.structs.replace(samples.report(2, samples.totals(1)), over=over)
        await store.apply_usage(both, at=1.0)
        await store.apply_usage(samples.report(2, samples.totals(6), worker=1), at=1.0)
        assert await used(store) == [(0.0, "k1", "qwen", 5 + 1 + 6)]

    async def test_the_difference_goes_into_the_hour_of_its_time(self, store: Store):
        await store.apply_usage(samples.report(1, samples.totals(3)), at=HOUR - 1)
        await store.apply_usage(samples.report(2, samples.totals(5)), at=HOUR)
        assert await used(store) == [(0.0, "k1", "qwen", 3), (HOUR, "k1", "qwen", 2)]
        only_second = await store.usage(since=HOUR, until=2 * HOUR)
        assert [row.requests for row in only_second] == [2]
        overlapping = await store.usage(since=HOUR - 1, until=HOUR)
        assert [row.requests for row in overlapping] == [3]

    async def test_boots_and_workers_add_up(self, store: Store):
        await store.apply_usage(samples.report(1, samples.totals(3)), at=1.0)
        await store.apply_usage(samples.report(1, samples.totals(4), worker=1), at=1.0)
        await store.apply_usage(samples.report(1, samples.totals(5), boot="b2"), at=1.0)
        assert await used(store) == [(0.0, "k1", "qwen", 12)]

    async def test_a_key_that_a_report_leaves_out_keeps_its_total(self, store: Store):
        other = samples.totals(7, key_id="k2")
        await store.apply_usage(samples.report(1, samples.totals(3), other), at=1.0)
        await store.apply_usage(samples.report(2, samples.totals(4)), at=1.0)
        await store.apply_usage(samples.report(3, samples.totals(4), other), at=1.0)
        assert await used(store) == [(0.0, "k1", "qwen", 4), (0.0, "k2", "qwen", 7)]

    async def test_a_total_that_falls_is_refused_in_words_and_nothing_of_it_counts(
        self, store: Store
    ):
        await store.apply_usage(samples.report(1, samples.totals(5)), at=1.0)
        fallen = samples.report(2, samples.totals(9, key_id="k0"), samples.totals(4))
        words = await refused(store.apply_usage(fallen, at=1.0), Refused)
        assert "requests of key k1 and qwen fell from 5 to 4" in words
        assert await used(store) == [(0.0, "k1", "qwen", 5)]
        assert await store.apply_usage(samples.report(2, samples.totals(6)), at=1.0)

    async def test_a_key_said_twice_and_numbers_beyond_counting_are_refused(self, store: Store):
        twice = samples.report(1, samples.totals(1), samples.totals(2))
        assert "twice" in await refused(store.apply_usage(twice, at=1.0), Refused)
        for report in (samples.report(1, samples.totals(2**60)), samples.report(2**63)):
            await refused(store.apply_usage(report, at=1.0), Refused)
        assert await used(store) == []

    async def test_what_was_acknowledged_is_there_after_a_restart(self, place: Place):
        first = place.store()
        await first.open("a")
        settings = await first.put_settings(
            samples.settings(stopped=True), expected=0, actor="ana", at=1.0
        )
        entry = await first.put_model(samples.model(), expected=0, actor="ana", at=1.0)
        await first.put_key(samples.key(), actor="ana", at=1.0)
        await first.put_join_token(samples.join_token(), actor="ana", at=1.0)
        await first.use_join_token("j1", at=2.0)
        await first.put_node(samples.node())
        await first.put_certificate(samples.certificate())
        await first.secret("engines", b"one")
        await first.apply_usage(samples.report(4, samples.totals(5)), at=1.0)
        audit = await first.audit()
        await first.close()

        again = place.store()
        await again.open("b")
        assert await again.settings() == settings
        assert await again.models() == (entry,)
        assert await again.keys() == (samples.key(),)
        assert (await again.join_token("j1")).used == 2.0
        assert await again.nodes() == (samples.node(),)
        assert await again.secret("engines", b"two") == b"one"
        assert not await again.apply_usage(samples.report(4, samples.totals(9)), at=1.0)
        assert await used(again) == [(0.0, "k1", "qwen", 5)]
        assert await again.audit() == audit
        assert await again.verify_audit() is None
        assert await again.remove_node("gpu-01", actor="ana", at=3.0) == ("0a",)
        await again.close()

    @pytest.mark.parametrize("after", range(0, 60, 12))
    async def test_a_call_that_is_cancelled_happened_wholly_or_not_at_all(
        self, store: Store, after: int
    ):
        call = asyncio.ensure_future(
            store.put_settings(
                samples.settings(stopped=True, interval=2.0), expected=0, actor="ana", at=1.0
            )
        )
        for _ in range(after):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        stored, changes = await store.settings(), await store.settings_history()
        assert (stored.version, len(changes)) in {(0, 0), (1, 2)}
        assert await store.verify_audit() is None
