"""Lines, widths, cleaning and what has to be painted again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw_tui.draw import text
from llmgw_tui.draw.text import Line, Piece, pieces_width, said

WORDS = st.text(st.sampled_from("ab 漢é●\u0301🎉-"), max_size=20)


@given(WORDS, WORDS, st.integers(0, 30))
def test_fitted_pieces_are_exactly_as_wide_as_asked(one: str, two: str, width: int) -> None:
    assert pieces_width(text.fit(said(one, (two, "dim")), width)) == width


@given(WORDS, st.integers(0, 20))
def test_a_cut_text_is_never_wider_than_asked(words: str, width: int) -> None:
    assert text.width_of(text.cut(words, width)) <= width


def test_what_is_cut_off_shows_as_an_ellipsis() -> None:
    assert text.cut("gpu-node-0123", 8) == "gpu-nod…"
    assert "".join(p.text for p in text.crop(said("abc", "defgh"), 6)) == "abcde…"


def test_nothing_foreign_steers_the_terminal() -> None:
    nasty = "a\x1b[2Jb\x1b]0;title\x07c\x1b]52;c;aGk=\x1b\\d\x9b31me\u202ef\x00g\th"
    assert text.clean(nasty) == "abcd31mefg  h"


@given(st.text())
def test_cleaned_text_has_no_control_characters(words: str) -> None:
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text.clean(words))


def test_the_right_end_of_a_spread_line_stays() -> None:
    pieces = text.spread(said("a long left side"), said("right"), 12)
    assert "".join(p.text for p in pieces) == "a lon… right"


def test_wrapped_text_breaks_at_spaces_and_says_when_it_was_cut() -> None:
    assert text.wrap("one two three", 7) == ("one two", "three")
    assert text.wrap("one two three four", 9, 2) == ("one two", "three fo…")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("abcdef", "abcdef", ()),
        ("abcdef", "abXdef", ((2, 1),)),
        ("aXcdeXg", "abcdefg", ((1, 5),)),
        ("0123456789abcdef", "X123456789abcdeX", ((0, 1), (15, 1))),
        ("漢b", "字b", ((0, 2),)),
    ],
)
def test_only_cells_that_differ_are_painted(
    old: str, new: str, expected: tuple[tuple[int, int], ...]
) -> None:
    assert text.spans(Line(said(old)), Line(said(new)), text.width_of(old)) == expected


def test_another_colour_is_a_difference() -> None:
    before, after = Line((Piece("ab", "dim"),)), Line((Piece("ab", "warn"),))
    assert text.spans(before, after, 2) == ((0, 2),)


def test_another_ground_is_painted_whole() -> None:
    line = Line(said("ab"))
    assert text.spans(line, line._replace(base="cursor"), 80) == ((0, 80),)
