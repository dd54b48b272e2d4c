"""The table of driver errors, against NVIDIA's catalog as a person reads it."""

import pytest

from llmgw_agent.parse.xid_table import (
    FOLLOWED_BY_RECOVERY,
    IGNORE,
    REBOOT,
    RESET,
    RESTART_APPLICATION,
    WHAT_TO_DO,
    codes,
    meaning,
)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        # Catalog, "Resolution Bucket (Immediate Action)": IGNORE.
        (IGNORE, (14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141)),
        (IGNORE, (152, 153, 157, 160, 161)),
        # RESTART_APP.
        (RESTART_APPLICATION, (8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72)),
        (RESTART_APPLICATION, (75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89, 94, 139)),
        (RESTART_APPLICATION, (*range(96, 106), *range(126, 136))),
        # RESET_GPU, WORKFLOW_XID_48 and WORKFLOW_NVLINK_ERR.
        (RESET, (46, 48, 62, 64, 74, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158)),
        # RESTART_BM, RESTART_VM, CHECK_MECHANICALS.
        (REBOOT, (54, 79, 151)),
        # CONTACT_SUPPORT, UPDATE_SWFW, CHECK_UVM, none named.
        (None, (78, 142, 159, 167, 168, 169, 170, 171, 172)),
    ],
)
def test_each_error_asks_for_what_the_catalog_says(action: str | None, expected: tuple[int, ...]):
    assert {code: meaning(code)[1] for code in expected} == dict.fromkeys(expected, action)
    assert all(meaning(code)[0] for code in expected)


def test_errors_of_older_cards_are_known():
    assert [meaning(code)[1] for code in (56, 57, 58, 61, 65)] == [
        IGNORE,
        RESET,
        RESET,
        RESET,
        RESTART_APPLICATION,
    ]


@pytest.mark.parametrize("code", range(144, 151))
def test_an_nvlink_error_asks_for_a_reset_only_when_it_is_fatal(code: int):
    assert [meaning(code, fatal=fatal)[1] for fatal in (True, False, None)] == [RESET, IGNORE, None]


def test_what_is_not_known_means_nothing():
    assert {meaning(code) for code in (0, 1, 51, 55, 59, 173, 99999)} == {(None, None)}


def test_no_error_asks_for_another_card_by_itself():
    asked = {meaning(code)[1] for code in codes()}
    assert asked == {IGNORE, RESTART_APPLICATION, RESET, REBOOT, None}
    assert set(WHAT_TO_DO) == {"reset", "reboot", "replace"}


def test_only_known_errors_are_followed_by_what_the_driver_asks_for():
    assert set(codes()) >= FOLLOWED_BY_RECOVERY
    assert FOLLOWED_BY_RECOVERY.isdisjoint({46, 119, 140})
