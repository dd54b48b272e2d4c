"""How a log's lines are coloured."""

from llmgw_tui.draw.text import said
from llmgw_tui.widgets.loglines import told


def test_times_are_dimmed_and_the_level_is_marked() -> None:
    assert told("2026-11-30T12:10:35Z warning disk: nearly full") == said(
        ("2026-11-30T12:10:35Z ", "dim"), ("warning", "warn"), " disk: nearly full"
    )
    assert told("ERROR: bad magic") == said(("ERROR", "down"), ": bad magic")


def test_a_word_that_is_part_of_another_or_far_away_is_no_level() -> None:
    assert told("terrors and warnings") == said("terrors and warnings")
    far = "x" * 80 + " error"
    assert told(far) == said(far)
