"""What a report means for placement, and which links of a card are down."""

import pytest

from llmgw.model.device import DeviceHealth
from llmgw_agent.parse.gpu_health import LinksUp, health, links_down, links_up, reasons, with_links
from llmgw_agent.parse.gpu_report import GpuReport, MemoryErrors, RemappedRows, RetiredPages
from llmgw_agent.parse.nvidia_smi_nvlink import CardLinks, Nvlink


def card(index: int, active: int, inactive: int = 0, name: str = "H100") -> CardLinks:
    links = [Nvlink(number=n, active=n < active) for n in range(active + inactive)]
    return CardLinks(index=index, name=name, uuid=f"GPU-{index}", links=tuple(links) or None)


def test_health_takes_over_what_the_report_counts():
    report = GpuReport(
        uuid="GPU-0",
        errors=MemoryErrors(
            corrected_volatile=1,
            uncorrected_volatile=2,
            corrected_aggregate=3,
            uncorrected_aggregate=4,
        ),
        remapped=RemappedRows(corrected=5, uncorrected=6, pending=True, failed=False),
        retired=RetiredPages(corrected=7, uncorrected=8, pending=False),
        recovery_action="reset",
    )
    assert health(report) == DeviceHealth(
        uuid="GPU-0",
        ecc_corrected_volatile=1,
        ecc_uncorrected_volatile=2,
        ecc_corrected_aggregate=3,
        ecc_uncorrected_aggregate=4,
        remapped_corrected=5,
        remapped_uncorrected=6,
        remap_pending=True,
        remap_failed=False,
        retired_corrected=7,
        retired_uncorrected=8,
        retire_pending=False,
        recovery_action="reset",
    )


def test_a_report_that_tells_nothing_gives_a_health_of_nothing():
    assert health(GpuReport(uuid="GPU-0")) == DeviceHealth(uuid="GPU-0")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"remap_failed": True}, "row remapping failed: replace the card"),
        ({"remap_pending": True}, "a row waits to be remapped: reset the card"),
        ({"retire_pending": True}, "a page waits to be retired: reset the card"),
        ({"recovery_action": "reset"}, "the driver asks for a reset of the card"),
        ({"recovery_action": "reboot"}, "the driver asks for a reboot of the machine"),
        ({"recovery_action": "drain"}, "the driver asks to drain the card and to reset it"),
    ],
)
def test_what_asks_for_an_action_is_a_reason(said: dict[str, bool | str], words: str):
    assert reasons(DeviceHealth(uuid="GPU-0", **said)) == (words,)  # type: ignore[arg-type]


def test_uncorrected_errors_alone_are_no_reason():
    told = DeviceHealth(
        uuid="GPU-0", ecc_uncorrected_volatile=3, remap_pending=False, recovery_action="none"
    )
    assert reasons(told) == ()


def test_a_driver_that_tells_of_no_action_gives_no_verdict():
    assert reasons(DeviceHealth(uuid="GPU-0", ecc_uncorrected_volatile=3)) is None


def test_a_link_listed_as_inactive_is_down():
    cards = (card(0, active=4, inactive=2), card(1, active=6))
    up = links_up(cards, {})
    assert up == {
        "GPU-0": LinksUp(total=6, down=2, most=4),
        "GPU-1": LinksUp(total=6, down=0, most=6),
    }
    assert links_down(cards, up) == ("GPU 0: 2 of its 6 NVLinks are down",)


def test_a_link_that_is_no_longer_listed_is_down():
    before = links_up((card(0, active=18),), {})
    cards = (card(0, active=17),)
    up = links_up(cards, before)
    assert up == {"GPU-0": LinksUp(total=18, down=1, most=18)}


def test_a_card_that_lists_fewer_links_than_its_like_has_some_down():
    cards = (card(0, active=18), card(1, active=17), card(2, active=4, name="other"))
    up = links_up(cards, {})
    assert up["GPU-1"] == LinksUp(total=18, down=1, most=17)
    assert up["GPU-2"] == LinksUp(total=4, down=0, most=4)


def test_the_one_of_eight_cards_that_lists_none_has_them_all_down():
    cards = tuple(card(number, active=0 if number == 5 else 18) for number in range(8))
    up = links_up(cards, {})
    assert links_down(cards, up) == ("GPU 5: 18 of its 18 NVLinks are down",)


def test_a_card_beside_two_bridged_ones_has_no_links():
    cards = (card(0, active=4), card(1, active=4), card(2, active=0))
    up = links_up(cards, {})
    assert "GPU-2" not in up
    assert links_down(cards, up) == ()


def test_links_that_are_down_everywhere_are_not_fitted():
    cards = (card(0, active=0, inactive=4), card(1, active=0, inactive=4))
    up = links_up(cards, {})
    assert up == {"GPU-0": LinksUp(total=4), "GPU-1": LinksUp(total=4)}
    assert links_down(cards, up) == ()
    assert with_links(DeviceHealth(uuid="GPU-0"), up["GPU-0"], None).nvlinks_down is None


def test_links_that_are_down_everywhere_and_were_up_are_a_fault():
    before = links_up((card(0, active=4), card(1, active=4)), {})
    cards = (card(0, active=0, inactive=4), card(1, active=0, inactive=4))
    up = links_up(cards, before)
    assert [links.down for links in up.values()] == [4, 4]
    assert len(links_down(cards, up)) == 2


def test_links_that_no_bridge_reaches_are_not_down():
    """Of twelve links one bridge joins four; the two pairs have one bridge and three."""
    pairs = tuple(card(number, active=4, inactive=8) for number in (0, 1))
    wide = tuple(card(number, active=12) for number in (2, 3))
    for cards in (pairs, (*pairs, *wide)):
        up = links_up(cards, {})
        assert [links.down for links in up.values()] == [0] * len(cards)
        assert links_down(cards, up) == ()
    lost = (card(0, active=3, inactive=9), pairs[1])
    assert links_up(lost, links_up(pairs, {}))["GPU-0"].down == 1


def test_a_card_without_a_bridge_beside_two_bridged_ones_has_nothing_down():
    cards = (card(0, active=4), card(1, active=4), card(2, active=0, inactive=4))
    assert links_up(cards, {})["GPU-2"] == LinksUp(total=4)


def test_two_of_eight_cards_that_had_fewer_links_up_from_the_start_have_some_down():
    cards = tuple(card(n, active=17 if n < 2 else 18, inactive=1 if n < 2 else 0) for n in range(8))
    assert [links.down for links in links_up(cards, {}).values()] == [1, 1, *[0] * 6]


def test_errors_of_links_are_summed_into_the_health():
    errors = CardLinks(
        index=0,
        links=(
            Nvlink(number=0, replay_errors=1, recovery_errors=2, crc_errors=3),
            Nvlink(number=1, replay_errors=10, recovery_errors=20, crc_errors=30),
        ),
    )
    told = with_links(DeviceHealth(uuid="GPU-0"), LinksUp(total=2, down=1), errors)
    assert told == DeviceHealth(
        uuid="GPU-0",
        nvlinks=2,
        nvlinks_down=1,
        nvlink_replay_errors=11,
        nvlink_recovery_errors=22,
        nvlink_crc_errors=33,
    )
    assert with_links(DeviceHealth(uuid="GPU-0"), None, None) == DeviceHealth(uuid="GPU-0")
