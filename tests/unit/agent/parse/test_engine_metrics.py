"""Engines' metrics pages: their names, what is not said, and pages of something else."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.engine_metrics import EngineUse, read_engine_metrics

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"


@pytest.mark.parametrize(
    ("path", "use"),
    [
        ("engine-metrics/llamacpp-lines.prom", EngineUse(running=2, waiting=1, moved=2150.0)),
        ("llama-server-http/metrics-idle.prom", EngineUse(running=0, waiting=0, moved=0.0)),
        (
            "engine-metrics/vllm-v0.prom",
            EngineUse(running=0, waiting=0, moved=12.0, cache_used=0.0),
        ),
    ],
)
def test_a_page_says_what_runs_what_waits_and_how_far_tokens_are(path: str, use: EngineUse):
    assert read_engine_metrics((FIXTURES / path).read_text()) == use


def test_sglang_counts_tokens_and_what_it_does_not_say_is_not_known():
    use = read_engine_metrics((FIXTURES / "engine-metrics/sglang-docs.prom").read_text())
    assert use.moved == pytest.approx(8.128902e06 + 7.557572e06)
    assert use.cache_used == 0.28


def test_samples_of_several_models_or_ranks_are_added_up():
    text = (
        'vllm:num_requests_running{model_name="a"} 2\nvllm:num_requests_running{model_name="b"} 3'
    )
    assert read_engine_metrics(text) == EngineUse(running=5)


def test_of_several_caches_the_fullest_counts_and_one_that_is_fuller_than_full_is_not_said():
    names = ("vllm:kv_cache_usage_perc", 'vllm:kv_cache_usage_perc{engine="1"}')
    text = f"{names[0]} 0.25\n{names[1]} 0.75\nvllm:num_requests_running 1"
    assert read_engine_metrics(text).cache_used == 0.75
    assert (
        read_engine_metrics("vllm:num_requests_running 1\nsglang:token_usage 28").cache_used is None
    )


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "many"])
def test_a_value_that_is_no_count_is_not_said(value: str):
    text = f"llamacpp:requests_processing {value}\nllamacpp:requests_deferred 1"
    assert read_engine_metrics(text) == EngineUse(waiting=1)


def test_a_page_of_something_else_is_refused():
    with pytest.raises(Unreadable, match="python_info"):
        read_engine_metrics("python_info 1")


lines = st.sampled_from(
    ("llamacpp:requests_processing", 'vllm:num_requests_waiting{a="b"}', "x", "# HELP", "{", " ")
)


@given(st.lists(st.tuples(lines, st.text(max_size=20)), max_size=20))
def test_no_text_makes_it_raise_anything_else(told: list[tuple[str, str]]):
    text = "\n".join(f"{name} {rest}" for name, rest in told)
    try:
        use = read_engine_metrics(text)
    except Unreadable:
        return
    assert (use.running or 0) >= 0
    assert (use.waiting or 0) >= 0
