"""When a driver error keeps everything off its card, and what ends that."""

from pathlib import Path

import pytest

from llmgw.model.device import Xid
from llmgw_agent.parse.kernel_log import XidEvent, read
from llmgw_agent.probe.xid_book import (
    MOST_AT_FIRST,
    MOST_CODES,
    MOST_UNLISTED,
    CardSigns,
    XidBook,
)

FIXTURES = Path(__file__).parents[3] / "fixtures" / "xid"
CARD = "0000:01:00"
NOON = 1_800_014_400.0
"""2027-01-15 12:00 UTC."""
LOADED = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024"
FOUND_AGAIN = "pci 0000:01:00.0: [10de:2330] type 00 class 0x030200 PCIe Endpoint"
NAMED_AGAIN = "NVRM: GPU at PCI:0000:01:00: GPU-2ba1a139-57db-54a1-8869-f456e6363530"


def xid(code: int, text: str = "words", card: str = CARD) -> str:
    return f"NVRM: Xid (PCI:{card}): {code}, {text}"


def book(*lines: str, at: float | None = NOON, heard: float = 1000.0) -> XidBook:
    return more(XidBook(), *lines, at=at, heard=heard)


def more(known: XidBook, *lines: str, at: float | None = NOON, heard: float = 1000.0) -> XidBook:
    for event in read("\n".join(lines)):
        known.take(event, at, heard)
    return known


def signs(read_at: float = 1100.0, **said) -> CardSigns:
    return CardSigns(read_at=read_at, **said)


def uncleared(known: XidBook, card: str = CARD) -> list[int]:
    return [one.code for one in known.xids(card) if not one.cleared]


def test_an_error_says_what_it_is_since_when_and_what_to_do():
    known = book(xid(79, "GPU has fallen off the bus."))
    assert known.reasons(CARD) == (
        "XID 79 (fell off the bus) at 2027-01-15 12:00 UTC: reboot the machine",
    )
    assert known.xids(CARD) == (
        Xid(
            code=79,
            count=1,
            last_seen=NOON,
            action="reboot",
            words="fell off the bus",
            cleared=False,
        ),
    )
    assert known.lasting() == (CARD,)


def test_repetitions_are_counted_and_the_reason_stays_the_same():
    known = book(xid(119))
    before = known.reasons(CARD)
    more(known, xid(119), xid(119), at=NOON + 300)
    assert known.reasons(CARD) == before
    (one,) = known.xids(CARD)
    assert (one.count, one.last_seen) == (3, NOON + 300)


def test_without_a_time_the_reason_has_none():
    assert book(xid(46), at=None).reasons(CARD) == (
        "XID 46 (the GPU stopped working): reset the GPU",
    )


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 94, 121])
def test_what_an_application_did_or_nobody_has_to_mend_keeps_nothing_off_the_card(code: int):
    known = book(*[xid(code)] * 5)
    assert known.reasons(CARD) == ()
    (one,) = known.xids(CARD)
    assert (one.count, one.cleared) == (5, True)


def test_an_error_that_nobody_knows_is_shown_and_keeps_nothing_off_the_card():
    known = book(xid(51, "BAD_TSG encountered"))
    assert known.reasons(CARD) == ()
    assert known.xids(CARD) == (Xid(code=51, count=1, last_seen=NOON, cleared=False),)


def test_nothing_may_be_placed_on_a_recorded_h100_with_a_double_bit_error():
    known = XidBook()
    for event in read((FIXTURES / "dmesg-iso-48-63-94-h100.txt").read_text()):
        known.take(event, event.when.at, 0.0)
    error = "XID 48 (an uncorrectable (double-bit) memory error)"
    assert known.reasons("0000:19:00") == (f"{error} at 2024-11-15 12:02 UTC: reset the GPU",)
    assert [(one.code, one.count) for one in known.xids("0000:19:00")] == [
        (48, 1),
        (63, 1),
        (94, 9),
    ]


@pytest.mark.parametrize("line", [LOADED, FOUND_AGAIN, NAMED_AGAIN])
def test_a_driver_that_is_loaded_anew_or_a_card_that_is_attached_anew_ends_it(line: str):
    known = book(xid(79), xid(51))
    more(known, line)
    assert known.reasons(CARD) == ()
    assert uncleared(known) == []
    more(known, xid(79), at=NOON + 60)
    assert known.reasons(CARD) == (
        "XID 79 (fell off the bus) at 2027-01-15 12:01 UTC: reboot the machine",
    )
    assert [one.count for one in known.xids(CARD)] == [1, 2]


def test_another_card_that_is_attached_ends_nothing():
    known = book(xid(79), FOUND_AGAIN.replace("01:00", "02:00"))
    assert uncleared(known) == [79]


def test_the_line_that_the_driver_is_loaded_does_not_end_what_it_found_while_loading():
    text = (FIXTURES / "dmesg-no-xid-fallen-off.txt").read_text()
    card = "0000:b3:00"
    known = book(text)
    assert uncleared(known, card) == [79]
    more(known, text)
    assert uncleared(known, card) == [79]
    more(known, LOADED)
    assert uncleared(known, card) == []


def test_the_driver_asking_for_nothing_more_ends_everything_before():
    asked = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    nothing = "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    known = book(xid(119), xid(154, asked))
    assert known.reasons(CARD)[0] == (
        "XID 154 (the driver asks for a reset) at 2027-01-15 12:00 UTC: reset the GPU"
    )
    more(known, xid(154, nothing))
    assert known.reasons(CARD) == ()
    assert uncleared(known) == []


def test_a_report_that_asks_for_nothing_ends_what_the_driver_follows():
    known = book(xid(95), xid(119), heard=1000.0)
    known.learn(CARD, signs(1020.0, recovery_action="none"))
    assert uncleared(known) == [95, 119], "the report may have been begun before the error"
    known.learn(CARD, signs(1060.0, recovery_action="reset"))
    assert uncleared(known) == [95, 119]
    known.learn(CARD, signs(1120.0, recovery_action="none"))
    assert uncleared(known) == [119], "the driver does not follow 119 with what it asks for"


def test_what_the_driver_does_not_follow_is_over_after_ten_quiet_minutes():
    known = book(xid(119), heard=1000.0)
    more(known, xid(119), heard=1300.0)
    known.learn(CARD, signs(1890.0, recovery_action="none"))
    assert uncleared(known) == [119]
    known.learn(CARD, signs(1900.0, recovery_action="none"))
    assert uncleared(known) == []


def test_a_driver_that_says_nothing_of_recovery_leaves_the_error():
    known = book(xid(119), xid(95))
    known.learn(CARD, signs(9000.0))
    assert uncleared(known) == [95, 119]


def test_counters_that_fell_show_a_reset():
    known = book(xid(119), heard=1000.0)
    known.learn(CARD, signs(1010.0, since_reset=(7, None, 3)))
    known.learn(CARD, signs(1070.0, since_reset=(9, None, 3)))
    assert uncleared(known) == [119]
    known.learn(CARD, signs(1130.0, since_reset=(0, None, 3)))
    assert uncleared(known) == []


def test_counters_that_are_not_told_have_not_fallen():
    known = book(xid(119), heard=1000.0)
    known.learn(CARD, signs(1010.0, since_reset=(7,)))
    known.learn(CARD, signs(1070.0, since_reset=(None,)))
    known.learn(CARD, signs(1130.0, since_reset=(8,)))
    assert uncleared(known) == [119]


def test_a_row_that_no_longer_waits_for_a_reset_shows_that_there_was_one():
    known = book(xid(48), xid(63), heard=1000.0)
    more(known, xid(95), at=NOON + 1)
    known.learn(CARD, signs(1060.0, remap_pending=True))
    assert uncleared(known) == [48, 95]
    known.learn(CARD, signs(1120.0, remap_pending=False))
    assert uncleared(known) == []


def test_a_later_error_is_not_ended_by_the_row_of_an_earlier_one():
    known = book(xid(48), xid(63), heard=1000.0)
    more(known, xid(95), at=NOON + 3600, heard=4600.0)
    known.learn(CARD, signs(9000.0, remap_pending=False))
    assert uncleared(known) == [95]


def test_no_row_to_remap_shows_nothing():
    known = book(xid(48))
    known.learn(CARD, signs(9000.0, remap_pending=False))
    assert uncleared(known) == [48]


def test_what_was_seen_last_is_named_first_and_only_some_of_it():
    known = book(*(xid(code) for code in (46, 48, 62, 64, 74, 79)))
    reasons = known.reasons(CARD)
    assert [reason.split(" ")[1] for reason in reasons] == ["79", "74", "64", "62", "2"]
    assert reasons[-1] == "and 2 more kinds of XID"


def others(count: int, code: int = 79) -> list[str]:
    return [xid(code, card=f"{number:04x}:05:00") for number in range(1, count + 1)]


def test_a_log_that_is_full_of_cards_and_kinds_stays_within_its_bounds():
    known = book(*others(MOST_AT_FIRST + 30))
    assert len(known.lasting()) == MOST_AT_FIRST
    known.hold(())
    assert len(known.lasting()) == MOST_UNLISTED
    more(known, *others(MOST_UNLISTED + 30))
    assert len(known.lasting()) == MOST_UNLISTED
    more(known, *(xid(code) for code in range(MOST_CODES + 30)))
    assert len(known.xids(CARD)) == MOST_CODES
    assert "more than 64 cards that the driver does not list" in (known.left_out or "")
    assert "more than 64 kinds" in (known.left_out or "")


@pytest.mark.parametrize("count", [64, 5000])
def test_a_listed_card_is_never_left_out_for_cards_that_nobody_lists(count: int):
    known = XidBook()
    known.hold({CARD})
    more(known, *others(count), xid(79))
    assert uncleared(known) == [79]
    more(known, *others(count))
    assert uncleared(known) == [79]


def test_errors_of_before_the_cards_are_listed_are_kept_for_those_that_are():
    known = book(xid(79), *others(200))
    known.hold({CARD})
    assert uncleared(known) == [79]
    assert len(known.lasting()) == MOST_UNLISTED + 1


def test_a_card_that_is_no_longer_listed_counts_among_those_that_nobody_lists():
    known = XidBook()
    known.hold({CARD})
    more(known, xid(79))
    known.hold(())
    assert known.lasting() == (CARD,)
    more(known, *others(MOST_UNLISTED))
    assert known.xids(CARD) == ()


def test_an_error_that_needs_somebody_is_never_left_out_for_ones_that_need_nobody():
    harmless = [xid(code) for code in range(1000, 1000 + MOST_CODES)]
    assert uncleared(book(*harmless, xid(79)))[:1] == [79]
    assert uncleared(book(xid(79), *harmless))[:1] == [79]


def test_a_time_in_no_year_is_left_out_of_the_words():
    assert book(xid(46), at=1e18).reasons(CARD) == book(xid(46), at=None).reasons(CARD)


def test_an_error_of_the_log_is_an_event_of_the_book():
    (event,) = read(xid(79))
    assert isinstance(event, XidEvent)
