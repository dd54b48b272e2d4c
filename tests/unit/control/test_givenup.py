"""What is given up is told to stop shard by shard: once, until it may be told again."""

from llmgw.control.givenup import PLACE_KEPT, GivenUp
from tests.fakes.clock import FakeClock

SHARDS = (("n1", 0), ("n2", 1))


def told(given: GivenUp) -> tuple[tuple[str, int], ...]:
    (drain,) = given.all(0.0)
    assert drain.told == bool(drain.told_shards)
    return drain.told_shards


def test_an_order_counts_for_the_shards_that_it_was_sent_for():
    clock = FakeClock()
    given = GivenUp(clock)
    given.add("r", "why")
    assert told(given) == ()
    assert given.told("r", SHARDS[:1])
    assert told(given) == SHARDS[:1]
    assert not given.told("r", SHARDS[1:]), "it is the first order only once"
    assert told(given) == SHARDS


def test_a_node_that_returned_is_told_again_and_no_other():
    given = GivenUp(FakeClock())
    given.add("r", "why")
    given.told("r", SHARDS)
    given.returned("n1")
    assert told(given) == SHARDS[1:]
    assert given.ordered("r")


async def test_an_order_lapses_for_each_shard_by_its_own_time():
    clock = FakeClock()
    given = GivenUp(clock)
    given.add("r", "why")
    given.told("r", SHARDS[:1])
    await clock.advance(10.0)
    given.told("r", SHARDS[1:])
    await clock.advance(10.0)
    given.expire(15.0)
    assert told(given) == SHARDS[1:]


async def test_the_place_of_one_that_is_rolled_is_its_successors_until_that_begins():
    clock, mine, other = FakeClock(), ("m", "default"), ("m", "large")
    given = GivenUp(clock)
    given.add("r1", "why", mine)
    given.add("r2", "why", mine)
    given.add("r3", "why")
    assert given.successors() == (mine, mine)
    given.gone("r1")
    given.gone("r3")
    assert given.successors() == (mine, mine)
    given.begins(other)
    assert given.successors() == (mine, mine)
    given.begins(mine)
    given.begins(mine)
    assert given.successors() == ()
    given.gone("r2")
    assert given.successors() == ()


async def test_a_place_is_not_kept_for_ever_nor_for_one_that_goes_on():
    clock, mine = FakeClock(), ("m", "default")
    given = GivenUp(clock)
    given.add("r1", "why", mine)
    given.add("r2", "why", mine)
    given.goes_on("r2")
    given.gone("r1")
    await clock.advance(PLACE_KEPT - 1)
    assert given.successors() == (mine,)
    await clock.advance(1)
    assert given.successors() == ()
