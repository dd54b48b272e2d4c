"""Routes are computed when somebody reads them, and marked when they came out different."""

from llmgw.control.feed import Feed
from llmgw.control.routing import Routing
from llmgw.model.feed import ROUTES, Batch, RouteChange
from llmgw.model.gateway import Route
from tests.fakes.clock import FakeClock


def test_a_route_that_changes_or_goes_is_told_and_one_that_stays_is_not(clock: FakeClock) -> None:
    feed, wanted = Feed("e1", clock), {"a": 1, "b": 1}
    routing = Routing(feed, lambda: tuple(Route(model=m, wanted=n) for m, n in wanted.items()))
    follower = feed.follow([ROUTES])
    feed.touch(ROUTES)
    assert len(routing.all()) == 2
    while follower.take() is not None:
        pass

    wanted.update(b=2)
    feed.touch(ROUTES)
    assert _changes(follower.take()) == {"b": 2}

    feed.touch(ROUTES)
    assert follower.take() is None

    del wanted["a"]
    feed.touch(ROUTES)
    assert _changes(follower.take()) == {"a": None}
    assert routing.get("a") is None


def _changes(batch: Batch | None) -> dict[str, int | None]:
    assert batch is not None
    found: dict[str, int | None] = {}
    for change in batch.changes:
        record = change.record
        assert record is None or isinstance(record, RouteChange)
        found[change.id] = None if record is None else record.value.wanted
    return found
