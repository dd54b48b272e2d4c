"""Labels and numbers as Prometheus's own client reads them back."""

import math
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from llmgw.control.metrics import text
from llmgw.control.metrics.text import (
    LABEL_MOST,
    clean,
    head,
    histogram_lines,
    labelled,
    number,
)
from llmgw.model.gateway import Histogram


def read(text: str) -> Metric:
    (metric,) = text_string_to_metric_families(text)
    return metric


@given(st.text(max_size=300))
@example('a\\"b')
@example("ends with a backslash\\")
@example("\\n is no line feed")
@example('},b="2"')
@example("m\n\x1b[31m\u202e\x00\ud800é")
def test_a_label_is_read_back_as_it_was_cleaned(text: str) -> None:
    (sample,) = read(f"m{{{labelled(('a', 'b'), (text, text))}}} 1\n").samples
    assert sample.labels == {"a": clean(text), "b": clean(text)}


@given(st.text(max_size=300))
def test_any_text_is_fit_for_a_label(text: str) -> None:
    cleaned = clean(text)
    assert len(cleaned) <= LABEL_MOST
    assert cleaned.isprintable()
    cleaned.encode()
    assert clean(cleaned) == cleaned


@given(st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False)))
@example(float("inf"))
@example(float("-inf"))
@example(5e-324)
@example(-0.0)
def test_a_number_is_read_back_as_it_was(value: float) -> None:
    (sample,) = read(f"m {number(value)}\n").samples
    assert sample.value == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (0, "0"),
        (True, "1.0"),
        (0.1, "0.1"),
        (85_520_000_000.0, "85520000000.0"),
        (1e16, "1e+16"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_the_format_says(value: float, text: str) -> None:
    assert number(value) == text


def test_a_histogram_is_read_back_with_its_buckets_sum_and_count() -> None:
    seen = Histogram(bounds=(0.1, 1.0, 10), counts=(1, 4, 7, 8), sum=12.5)
    text = head("t_seconds", "histogram", "Time.") + histogram_lines("t_seconds", 'm="x"', seen)
    metric = read(text)
    assert (metric.name, metric.type) == ("t_seconds", "histogram")
    found = {(one.name, one.labels.get("le")): one.value for one in metric.samples}
    assert found == {
        ("t_seconds_bucket", "0.1"): 1,
        ("t_seconds_bucket", "1.0"): 4,
        ("t_seconds_bucket", "10.0"): 7,
        ("t_seconds_bucket", "+Inf"): 8,
        ("t_seconds_sum", None): 12.5,
        ("t_seconds_count", None): 8,
    }
    assert {one.labels["m"] for one in metric.samples} == {"x"}


def test_a_histogram_without_labels_has_no_empty_braces() -> None:
    text = histogram_lines("t", "", Histogram(bounds=(1.0,), counts=(1, 2), sum=3.0))
    assert text == 't_bucket{le="1.0"} 1\nt_bucket{le="+Inf"} 2\nt_sum 3.0\nt_count 2\n'


def test_the_words_of_a_family_stay_on_their_line() -> None:
    metric = read(head("m", "gauge", "A \\ and\na line.") + "m 1\n")
    assert metric.documentation == "A \\ and\na line."


def test_what_is_kept_of_a_label_is_no_longer_than_a_label() -> None:
    text._shown.cache_clear()
    tracemalloc.start()
    try:
        for number in range(20):
            assert len(text.shown(f"{number} " + "x" * 1_000_000)) == text.LABEL_MOST
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
