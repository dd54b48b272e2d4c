"""Numbers, bars and sparklines: what is not known never looks like zero."""

import pytest

from llmgw_tui.draw import measures
from llmgw_tui.draw.text import Pieces, pieces_width

NAN = float("nan")


def _text(pieces: Pieces) -> str:
    return "".join(piece.text for piece in pieces)


def test_an_unknown_share_is_a_dash_and_a_zero_is_a_bar() -> None:
    assert _text(measures.gauge(None, "-", 12)).strip() == "-"
    assert _text(measures.gauge(0.0, "  0%", 12)) == "───────   0%"


@pytest.mark.parametrize(
    ("share", "drawn"),
    [(0.0, "──────────"), (0.01, "╸─────────"), (0.5, "━━━━━─────"), (1.0, "━━━━━━━━━━")],
)
def test_bars_fill_in_half_cells(share: float, drawn: str) -> None:
    assert _text(measures.bar(share, 10)) == drawn


@pytest.mark.parametrize("width", range(1, 30))
@pytest.mark.parametrize("share", [None, 0.0, 0.004, 0.37, 0.999, 1.0])
def test_gauges_are_as_wide_as_their_column(share: float | None, width: int) -> None:
    assert pieces_width(measures.gauge(share, measures.percent(share).rjust(4), width)) == width


def test_shares_of_the_unknown_are_unknown() -> None:
    assert measures.share_of(None, 5) is None
    assert measures.share_of(1, None) is None
    assert measures.share_of(1, 0) is None
    assert measures.share_of(0, 5) == 0.0
    assert measures.number(None, " W") == "-"
    assert measures.number(0.0, " W") == "0 W"


def test_gaps_stay_blank_in_a_sparkline() -> None:
    drawn = _text(measures.spark([NAN, NAN, 0.0, NAN, 1.0, 1.0], 3))
    assert drawn[0] == " "
    assert drawn[1] != " ", "a measured zero is seen"
    assert drawn[2] == "⣿"


def test_ages_change_once_a_minute_at_most() -> None:
    assert [measures.age(seconds) for seconds in (None, 0, 59, 61, 3_725, 100_000)] == [
        "-",
        "<1m",
        "<1m",
        "1m",
        "1h02m",
        "1d03h",
    ]
