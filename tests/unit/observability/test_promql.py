"""Names and labels read off PromQL."""

import pytest

from llmgw.base.errors import Unreadable
from llmgw.observability.promql import Grouping, Matcher, Selector, groupings, metrics, selectors


def test_a_metric_is_told_from_functions_keywords_and_labels() -> None:
    expr = (
        'sum by (model) (rate(a_total{code=~"5..", model="m"}[5m])) / b_seconds_count offset 1h'
        " > bool 0.05 and on (model) absent(c) unless d"
    )
    assert selectors(expr) == (
        Selector("a_total", (Matcher("code", "=~", "5.."), Matcher("model", "=", "m"))),
        Selector("b_seconds_count"),
        Selector("c"),
        Selector("d"),
    )


def test_words_within_texts_are_no_metrics() -> None:
    assert metrics("""up{job="sum(a) by (b)", x='y{z}', w=`v`}""") == {"up"}


def test_numbers_durations_and_variables_are_no_metrics() -> None:
    expr = '1e9 * a{n=~"$n"}[$__rate_interval] - 0x1F + increase(b[1h30m]) > Inf or ${c} * $d'
    assert metrics(expr) == {"a", "b"}


@pytest.mark.parametrize(
    "expr",
    ['sum by (x, y) (a{z="1"} * b) + c', 'sum(a{z="1"} * b) by (x, y) + c'],
    ids=["before", "after"],
)
def test_an_aggregation_is_about_its_own_argument(expr: str) -> None:
    assert groupings(expr) == (Grouping("by", ("x", "y"), ("a", "b")),)


def test_a_join_is_about_the_whole_expression() -> None:
    assert groupings("a * on (x) group_left (y) b") == (
        Grouping("on", ("x",), ("a", "b")),
        Grouping("group_left", ("y",), ("a", "b")),
    )


def test_an_aggregation_without_labels_groups_by_none() -> None:
    assert groupings("count(a) and on () b") == (Grouping("on", (), ("a", "b")),)


@pytest.mark.parametrize("expr", ["a ; b", 'a{x="y"', 'a{x="y}', "a and \\"])
def test_what_is_no_promql_is_quoted(expr: str) -> None:
    with pytest.raises(Unreadable, match=r"not PromQL|not closed"):
        selectors(expr)


def test_by_without_an_aggregation_is_no_promql() -> None:
    with pytest.raises(Unreadable, match="'by' belongs to no aggregation"):
        groupings("by (x)")
