import random
import re

from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.backoff import Backoff
from llmgw.base.ids import CROCKFORD, replica_id, shard_id, slug


@given(st.integers(0, 10_000), st.integers())
def test_a_wait_is_never_longer_than_the_limit(attempt: int, seed: int) -> None:
    backoff = Backoff(first=0.5, most=30.0)
    assert 0.0 <= backoff.delay(attempt, random.Random(seed)) <= backoff.limit(attempt) <= 30.0


def test_waits_are_spread_over_the_whole_range() -> None:
    rng, backoff = random.Random(1), Backoff()
    waits = sorted(backoff.delay(10, rng) for _ in range(200))
    assert waits[0] < 3.0
    assert waits[-1] > 27.0


@given(st.text(max_size=300), st.integers())
def test_a_replica_id_is_a_word_whatever_the_model_is_called(model: str, seed: int) -> None:
    assert re.fullmatch(
        r"[a-z0-9]+(-[a-z0-9]+)*-[0-9a-z]{6}", replica_id(model, random.Random(seed))
    )


def test_ids_have_no_letters_that_are_mistyped() -> None:
    assert not set("ilou") & set(CROCKFORD)
    assert slug("Qwen/Qwen2.5-14B:latest") == "qwen-qwen2-5-14b-latest"
    assert shard_id("a-1", 0) == "a-1/0"
