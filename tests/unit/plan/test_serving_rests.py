"""A serving job about a model that a request starts."""

import msgspec
import pytest

from llmgw.model.catalog import Model, Profile, Scaling
from llmgw.model.jobs import DONE, SKIPPED
from llmgw.plan.records import Want
from llmgw.plan.serving.records import CHECK, PLACE, READY, Seen
from tests.unit.plan.serving_job import MODEL, Going, a_plan, entry, replicas

ON_DEMAND = msgspec.structs.replace(
    MODEL, profiles=(Profile(engine="llamacpp", replicas=0, max_replicas=1),)
)
STOPS = msgspec.structs.replace(
    MODEL, profiles=(Profile(engine="llamacpp", replicas=2, scaling=Scaling(idle_stop=60)),)
)


def load_wants(wanted: int) -> tuple[Want, ...]:
    return (Want(model="tiny", profile="default", replicas=wanted, words="as load says"),)


def placed(model: Model, seen: Seen) -> Going:
    """Return a job of which nothing had to be fetched, after it looked at the fleet."""
    going = Going(model)
    going.on(Seen(plan=a_plan(())))
    going.on(Seen())
    going.on(seen)
    return going


@pytest.mark.parametrize("model", [ON_DEMAND, STOPS])
def test_a_model_that_rests_is_served_and_says_what_starts_it(model: Model):
    going = placed(model, Seen(entry=entry(model), wants=load_wants(0)))
    assert going.job.state == DONE
    for name in (PLACE, READY):
        words = going.step(name).progress.words
        assert words == "no replica until a request comes, which starts it"
    assert going.step(CHECK).state == SKIPPED
    assert going.step(CHECK).reason == "no replica has to be started for it yet"


def test_what_a_request_or_a_new_entry_has_started_is_waited_for():
    going = placed(STOPS, Seen(entry=entry(STOPS), wants=load_wants(2)))
    assert going.step(PLACE).progress.words == "0 of 2 replicas"
    there = replicas("ready", "ready", model=STOPS)
    going.on(Seen(entry=entry(STOPS), wants=load_wants(2), replicas=there))
    assert going.job.state == DONE


def test_a_model_that_always_runs_is_waited_for_whatever_load_wants():
    always = msgspec.structs.replace(
        MODEL, profiles=(Profile(engine="llamacpp", replicas=2, max_replicas=3),)
    )
    going = placed(always, Seen(entry=entry(always), wants=load_wants(0)))
    assert going.step(PLACE).progress.words == "0 of 2 replicas"
