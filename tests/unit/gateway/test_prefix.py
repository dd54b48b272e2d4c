"""Which replica may hold the beginning of a prompt, and what that is worth in a choice."""

import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway import prefixes
from llmgw.gateway.route.choice import (
    BUSY,
    ONLY,
    PREFIX,
    REASONS,
    SESSION,
    SHORT,
    UNKNOWN,
    Prompt,
    choose,
)
from llmgw.gateway.route.prefix import (
    BLOCK,
    LEVELS,
    MARKS,
    SLOTS,
    PrefixTable,
    leading_hashes,
    mark_of,
)
from tests.fakes.replica_model import (
    MAPPED,
    conversations,
    random_prompts,
    run,
    shared_prompts,
)


@dataclass(eq=False)
class Place:
    number: int
    load: int = 0
    strained: bool = False

    @property
    def mark(self) -> int:
        return mark_of(self.number)


def prompt(blocks: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(blocks * BLOCK)


def pick(
    places: list[Place],
    hashes: list[int],
    table: PrefixTable,
    rng: random.Random | None = None,
    session: int | None = None,
) -> tuple[Place, str]:
    loads = [place.load for place in places]
    below = (rng or random.Random(1)).randrange
    return choose(places, loads, Prompt(hashes, session), table, below)


# Hashes.


@given(st.integers(0, 140), st.integers(0, 140), st.integers(0, BLOCK - 1))
def test_prompts_share_the_hashes_of_what_they_begin_with_alike(shared, own, rest):
    beginning = prompt(shared)
    one = leading_hashes(beginning + prompt(own, 2) + b"x" * rest, 7)
    other = leading_hashes(beginning + prompt(own, 3) + b"y" * rest, 7)
    same = sum(1 for left, right in zip(one, other, strict=True) if left == right)
    assert same == sum(1 for level in LEVELS if level <= shared)


def test_what_is_shorter_than_a_block_has_no_hash():
    assert leading_hashes(b"x" * (BLOCK - 1), 7) == []
    assert len(leading_hashes(b"x" * BLOCK, 7)) == 1


def test_a_prompt_counts_for_one_model_alone():
    assert not set(leading_hashes(prompt(8), 7)) & set(leading_hashes(prompt(8), 8))


# The table.


def test_the_table_tells_who_holds_how_much():
    table = prefixes.private()
    hashes = leading_hashes(prompt(8), 0)
    table.learn(hashes[:2], mark_of(0))
    table.learn(hashes[:4], mark_of(1))
    table.learn(hashes, mark_of(2))
    among = mark_of(0) | mark_of(1) | mark_of(3)
    assert table.holders(hashes, among) == [(mark_of(1), 4), (mark_of(0), 2)]


def test_a_hash_whose_place_was_taken_does_not_hide_the_longer_ones():
    table = prefixes.private()
    hashes = leading_hashes(prompt(8), 0)
    table.learn(hashes, mark_of(0))
    table.learn([hashes[1] ^ (1 << 40)], mark_of(1))
    assert table.holders(hashes, mark_of(0)) == [(mark_of(0), len(hashes))]
    assert table.holders(hashes[:2], mark_of(0)) == [(mark_of(0), 1)]


def test_a_session_is_one_replicas_alone():
    table = prefixes.private()
    table.assign(5, mark_of(0))
    table.assign(5, mark_of(1))
    assert table.holders((5,), mark_of(0) | mark_of(1)) == [(mark_of(1), 1)]


def test_sixty_three_replicas_have_marks_of_their_own_in_a_word():
    marks = {mark_of(number) for number in range(MARKS)}
    assert len(marks) == MARKS
    assert max(marks) < 1 << 63
    assert mark_of(MARKS) == mark_of(0)


def test_random_prompts_fill_the_table_and_no_more():
    table = prefixes.private()
    rng = random.Random(3)
    for number in range(130_000):
        table.learn(leading_hashes(rng.randbytes(3 * BLOCK), 0), mark_of(number % 4))
    assert SLOTS / 2 < table.size() <= SLOTS


# The choice.


def test_one_that_holds_the_prompt_is_chosen_before_one_that_has_as_little_to_do():
    table = prefixes.private()
    hashes = leading_hashes(prompt(16), 0)
    places = [Place(number) for number in range(4)]
    table.learn(hashes, places[2].mark)
    for seed in range(20):
        assert pick(places, hashes, table, random.Random(seed)) == (places[2], PREFIX)


def test_one_that_holds_the_prompt_and_has_too_much_to_do_is_passed_over():
    table = prefixes.private()
    hashes = leading_hashes(prompt(16), 0)
    places = [Place(0, 4), Place(1, 1), Place(2, 1)]
    table.learn(hashes, places[0].mark)
    one, reason = pick(places, hashes, table)
    assert (one.load, reason) == (1, BUSY)


def test_a_short_beginning_is_not_worth_a_request_more():
    table = prefixes.private()
    hashes = leading_hashes(prompt(16), 0)
    places = [Place(0, 1), Place(1, 0)]
    table.learn(hashes[:2], places[0].mark)
    assert pick(places, hashes, table) == (places[1], BUSY)
    places[1].load = 1
    assert pick(places, hashes, table) == (places[0], PREFIX)


def test_what_a_replica_that_left_held_is_nobodys():
    table = prefixes.private()
    hashes = leading_hashes(prompt(16), 0)
    left, first, second = Place(0), Place(1), Place(2)
    table.learn(hashes, left.mark)
    assert pick([first, second], hashes, table)[1] == UNKNOWN


def test_what_an_engine_holds_that_is_full_is_no_reason_to_send_it_more():
    table = prefixes.private()
    hashes = leading_hashes(prompt(16), 0)
    places = [Place(0, strained=True), Place(1), Place(2)]
    table.learn(hashes, places[0].mark)
    table.learn(hashes, places[1].mark)
    for seed in range(10):
        assert pick(places, hashes, table, random.Random(seed)) == (places[1], PREFIX)


def test_a_session_goes_to_the_replica_that_served_it_while_that_has_not_too_much_to_do():
    table = prefixes.private()
    places = [Place(number) for number in range(4)]
    table.assign(99, places[3].mark)
    assert pick(places, [], table, session=99) == (places[3], SESSION)
    places[3].load = 3
    assert pick(places, [], table, session=99)[1] == BUSY


def test_of_one_there_is_no_choice_and_a_short_prompt_goes_by_load():
    table = prefixes.private()
    assert pick([Place(0, 9)], leading_hashes(prompt(4), 0), table)[1] == ONLY
    places = [Place(0, 2), Place(1, 1), Place(2, 3)]
    assert pick(places, [], table) == (places[1], SHORT)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=8), st.integers(0, 99), st.data())
def test_no_replica_is_chosen_that_has_more_to_do_than_what_it_holds_is_worth(loads, seed, data):
    table = prefixes.private()
    hashes = leading_hashes(prompt(16, seed), 0)
    places = [Place(number, load) for number, load in enumerate(loads)]
    for place in places:
        table.learn(hashes[: data.draw(st.integers(0, len(hashes)))], place.mark)
    one, reason = pick(places, hashes, table, random.Random(seed))
    assert one.load - min(loads) <= 1 + sum(loads) / len(loads) / 4
    assert reason in REASONS


def test_a_burst_with_one_prefix_spreads():
    table = prefixes.private()
    places = [Place(number) for number in range(4)]
    rng = random.Random(2)
    for number in range(64):
        hashes = leading_hashes(prompt(16) + prompt(8, 100 + number), 0)
        one, _ = pick(places, hashes, table, rng)
        one.load += 1
        table.learn(hashes, one.mark)
    assert max(place.load for place in places) <= 1.5 * 64 / 4


# Many requests, in a model.


@pytest.mark.parametrize("prompts", [shared_prompts, conversations])
def test_two_workers_find_what_one_finds(prompts):
    one = run(prompts(5), requests=4000)
    two = run(prompts(5), requests=4000, workers=2, way=MAPPED)
    by_load = run(prompts(5), requests=4000, by_load=True)
    assert two.share >= 0.95 * one.share
    assert one.share >= 1.2 * by_load.share


def test_without_shared_prefixes_nobody_waits_longer_than_by_load_alone():
    ours = run(random_prompts(5), requests=4000, workers=2)
    by_load = run(random_prompts(5), requests=4000, workers=2, by_load=True)
    assert ours.queue(99) <= 1.1 * by_load.queue(99)
    assert ours.hits == 0


def test_with_shared_prefixes_too_the_queues_stay_short():
    ours = run(shared_prompts(5), requests=4000, workers=2)
    by_load = run(shared_prompts(5), requests=4000, workers=2, by_load=True)
    assert ours.queue(99) <= 1.25 * by_load.queue(99)
