"""What every store must do with what gateways counted."""

import pytest

from llmgw.model.gateway import Histogram, ModelTraffic, ReplyCount, TrafficReport
from llmgw.store.interface import Store, StoredTraffic
from tests.flow.store.conformance import Place


def counted(gateway: str, tokens: int, *, boot: str = "b1") -> StoredTraffic:
    model = ModelTraffic(
        model="qwen",
        replies=(ReplyCount(code=200, count=tokens),),
        duration=Histogram(bounds=(0.5, 1.0), counts=(1, 2, 3), sum=1.25),
        completion_tokens=tokens,
        in_flight=2,
    )
    report = TrafficReport(gateway=gateway, boot=boot, worker=1, models=(model,))
    finished = (ModelTraffic(model="qwen", prompt_tokens=2**53),)
    return StoredTraffic(gateway=gateway, finished=finished, reports=(report,))


class TrafficConformance:
    async def test_what_gateways_counted_is_read_back_as_it_was(self, store: Store):
        assert await store.traffic() == ()
        await store.put_traffic((counted("g2", 5), counted("g1", 7)))
        assert await store.traffic() == (counted("g1", 7), counted("g2", 5))

    async def test_a_gateways_later_totals_replace_its_own_alone(self, store: Store):
        await store.put_traffic((counted("g1", 7), counted("g2", 5)))
        await store.put_traffic((counted("g1", 9, boot="b2"),))
        assert await store.traffic() == (counted("g1", 9, boot="b2"), counted("g2", 5))
        await store.put_traffic(())
        assert len(await store.traffic()) == 2

    @pytest.mark.parametrize("gateway", ["g 'one\"; DROP TABLE traffic", "gé\n"])
    async def test_any_name_is_kept_as_it_is(self, store: Store, gateway: str):
        await store.put_traffic((counted(gateway, 1),))
        assert [one.gateway for one in await store.traffic()] == [gateway]

    async def test_totals_outlive_the_store(self, place: Place):
        first = place.store()
        await first.open("a")
        await first.put_traffic((counted("g1", 7),))
        await first.close()
        again = place.store()
        await again.open("b")
        assert await again.traffic() == (counted("g1", 7),)
        await again.close()
