"""When keys were used last and how often they were refused, as gateways tell it."""

from llmgw.control.key_use import FRESH, KeyUses
from llmgw.model.keys import QuotaFigures, QuotaReport, QuotaUse, UsageReport, UsageTotals
from tests.fakes.clock import FakeClock


def refused(uses: KeyUses, count: int | None, gateway: str = "g", *, short: bool = False) -> None:
    nothing = QuotaFigures()
    use = QuotaUse(key="k", used=nothing, held=nothing, short=short, refused=count)
    uses.told(QuotaReport(gateway=gateway, keys=(use,)))


def test_a_key_was_used_when_a_gateway_told_of_it() -> None:
    clock = FakeClock(500.0)
    uses = KeyUses(clock)
    assert uses.last_used("k") is None
    totals = (UsageTotals(key="k", model="m", requests=1),)
    uses.used(UsageReport(gateway="g", boot="b", worker=0, sequence=1, totals=totals))
    assert uses.last_used("k") == 500.0
    assert uses.last_used("other") is None
    uses.forget()
    assert uses.last_used("k") is None


def test_refusals_are_summed_over_gateways_and_their_starts() -> None:
    uses = KeyUses(FakeClock(500.0))
    assert uses.refused("k") is None
    refused(uses, 3)
    assert uses.refused("k") == (3, None)  # when they were is not known: before this leader
    refused(uses, 5)
    refused(uses, 2, "h", short=True)
    assert uses.refused("k") == (7, 500.0)
    refused(uses, 1)  # the first gateway started anew
    assert uses.refused("k") == (8, 500.0)


def test_an_older_gateway_says_nothing_of_refusals() -> None:
    uses = KeyUses(FakeClock())
    refused(uses, None)
    assert uses.refused("k") is None


async def test_what_the_store_said_is_not_asked_for_again_at_once() -> None:
    clock = FakeClock()
    uses = KeyUses(clock)
    assert uses.fresh_rows() is None
    uses.keep_rows(())
    assert uses.fresh_rows() == ()
    await clock.advance(FRESH)
    assert uses.fresh_rows() is None
