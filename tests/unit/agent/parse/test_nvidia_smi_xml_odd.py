"""Reports in XML that are broken, hostile or odd: a field costs itself, never another one."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.card_devices import devices, samples
from llmgw_agent.parse.cards import LOST, CardProcess
from llmgw_agent.parse.nvidia_smi_xml import read_report
from llmgw_agent.parse.xml_tree import read_xml
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi-q-x"
MIG_CARD = (FIXTURES / "a100-80g-mig-4x1g20gb.xml").read_text()
A10G = (FIXTURES / "a10g-515.xml").read_text()

BOMB = """<?xml version="1.0"?>
<!DOCTYPE nvidia_smi_log [
  <!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;">
]>
<nvidia_smi_log><gpu id="00000000:01:00.0"><product_name>&c;</product_name></gpu></nvidia_smi_log>
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "declares entities: 'a'"),
        (
            BOMB.replace('<!ENTITY a "aaaaaaaaaa">', '<!ENTITY a SYSTEM "file:///etc/passwd">'),
            "'a'",
        ),
        ("<a>" * 100, "nests deeper than 64"),
        ("", "not XML"),
        ("No devices were found\n", "not XML.*No devices were found"),
        (A10G[: len(A10G) // 2], "not XML"),
        ("<a>\ud800</a>", "not XML"),
        ("<other/>", "not a report of nvidia-smi: <other>"),
    ],
)
def test_what_is_no_report_is_refused_and_quoted(text: str, words: str):
    with pytest.raises(Unreadable, match=words):
        read_report(text)


def test_a_document_type_is_named_and_not_fetched():
    assert '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v11.dtd">' in A10G
    assert read_report(A10G).cards


def test_a_process_whose_name_is_no_xml_costs_its_name_alone():
    broken = A10G.replace("/usr/lib/xorg/Xorg", "/opt/R&D <beta>/run")
    seen = read_report(broken)
    assert only(seen.cards).processes == (
        CardProcess(pid=725, name=None, memory_bytes=22 << 20, kind="G"),
    )


def test_a_value_that_is_no_number_costs_itself():
    card = only(read_report(A10G.replace("25.58 W", "25.5ERR! W").replace("17 C", "ERR!")).cards)
    assert (card.power, card.temperature, card.power_limit) == (None, None, 300.0)


def test_newer_drivers_split_uncorrected_errors_and_they_are_added_up():
    newer = A10G.replace(
        "<sram_uncorrectable>0</sram_uncorrectable>",
        "<sram_uncorrectable_parity>2</sram_uncorrectable_parity>"
        "<sram_uncorrectable_secded>3</sram_uncorrectable_secded>",
        1,
    )
    card = only(read_report(newer).cards)
    assert (card.ecc_uncorrected, card.ecc_corrected) == (5, 0)


def test_older_drivers_count_errors_by_bits():
    older = A10G.replace(
        "<volatile>", "<volatile><double_bit><total>7</total></double_bit>", 1
    ).replace("_uncorrectable>0<", "_uncorrectable>N/A<")
    assert only(read_report(older).cards).ecc_uncorrected == 7


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("<gpu_recovery_action>Reset</gpu_recovery_action>", "reset"),
        ("<gpu_recovery_action>Drain and Reset</gpu_recovery_action>", "drain"),
        ("<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>", "reset"),
        ("<gpu_recovery_action>N/A</gpu_recovery_action>", None),
    ],
)
def test_what_the_driver_asks_for(said: str, action: str | None):
    health = only(read_report(A10G.replace("<pci>", f"{said}<pci>", 1)).cards).health
    assert health is not None
    assert health.recovery_action == action


def test_processes_of_a_card_in_mig_mode_are_those_of_its_instances():
    said = (
        "<processes>"
        "<process_info><gpu_instance_id>4</gpu_instance_id>"
        "<compute_instance_id>0</compute_instance_id><pid>71</pid><type>C</type>"
        "<process_name>python</process_name><used_memory>900 MiB</used_memory></process_info>"
        "<process_info><gpu_instance_id>N/A</gpu_instance_id>"
        "<compute_instance_id>N/A</compute_instance_id><pid>72</pid></process_info>"
        "</processes>"
    )
    card = only(read_report(MIG_CARD.replace("<processes />", said)).cards)
    python = CardProcess(pid=71, name="python", memory_bytes=900 << 20, kind="C")
    assert [one.processes for one in card.instances or ()] == [(), (python,), (), ()]
    assert card.processes == (CardProcess(pid=72),)


def test_a_lost_card_and_one_without_uuid_are_troubled():
    lost = only(read_report(A10G.replace("<fan_speed>0 %", "<fan_speed>GPU is lost")).cards)
    assert lost.trouble == LOST
    unknown = A10G.replace("GPU-6050aebe-d366-55dd-b371-b2bd51e6aa1d", "Unknown Error")
    assert only(read_report(unknown).cards).trouble == (
        "the driver does not tell the card's UUID: Unknown Error"
    )


REPORT = (FIXTURES / "a100-80g-mig-4x1g20gb.xml").read_text().splitlines()


NO_NUMBERS = st.text(st.characters(exclude_categories=("Nd", "Cs")))


@st.composite
def garbled(draw: st.DrawFn) -> str:
    """A report of which lines are cut, swapped or spoiled."""
    lines = list(REPORT)
    for _ in range(draw(st.integers(1, 5))):
        place = draw(st.integers(0, len(lines) - 1))
        other = draw(st.integers(0, len(lines) - 1))
        kind = draw(st.sampled_from(("cut", "swap", "spoil", "drop")))
        if kind == "cut":
            lines[place] = lines[place][: draw(st.integers(0, len(lines[place])))]
        elif kind == "swap":
            lines[place], lines[other] = lines[other], lines[place]
        elif kind == "spoil":
            start, _, rest = lines[place].partition(">")
            _, less, end = rest.partition("<")
            lines[place] = f"{start}>{draw(NO_NUMBERS)}{less}{end}"
        else:
            lines[place] = ""
    return "\n".join(lines)


@given(
    st.one_of(
        garbled(), st.text(), st.text().map(lambda s: f"<nvidia_smi_log>{s}</nvidia_smi_log>")
    )
)
def test_no_text_makes_it_raise_anything_but_unreadable(text: str):
    try:
        seen = read_report(text)
    except Unreadable:
        return
    devices(seen.cards)
    for sample in samples(seen.cards, frozenset(), 0.0):
        # Never 0 where the text says N/A.
        assert (sample.busy_percent, sample.fan_percent) == (None, None)


def test_text_is_found_by_path_and_an_element_that_is_not_there_says_nothing():
    tree = read_xml("<a><b x='1'> one <c>two</c></b><b>three</b></a>")
    assert (tree.tag, tree.said("b"), tree.said("b/c"), tree.said("b/d", "b/c")) == (
        "a",
        "one",
        "two",
        "two",
    )
    assert tree.said("nothing/here") == ""
    assert [one.text for one in tree.all("b")] == [" one ", "three"]
    assert (tree.all("x/b"), tree.children[0].attributes) == ([], {"x": "1"})


FORGED = (
    "x</process_name><used_memory>1 MiB</used_memory></process_info><process_info>"
    "<pid>1</pid><type>C</type><process_name>init"
)


def test_a_name_that_holds_tags_forges_no_process():
    seen = read_report(A10G.replace("/usr/lib/xorg/Xorg", FORGED))
    # <pid>725</pid> … <used_memory>22 MiB</used_memory>
    assert only(seen.cards).processes == (CardProcess(pid=725, memory_bytes=22 << 20, kind="G"),)


def test_names_with_line_ends_that_leave_a_process_told_twice_make_the_list_unknown():
    forged = "x</process_name>\n<used_memory>1 MiB</used_memory>\n<process_name>y"
    assert only(read_report(A10G.replace("/usr/lib/xorg/Xorg", forged)).cards).processes is None


def test_two_sections_on_one_card_are_refused():
    start, end = A10G.index("<gpu id"), A10G.index("</gpu>") + len("</gpu>")
    with pytest.raises(Unreadable, match="two sections on one card"):
        read_report(A10G[:end] + A10G[start:end] + A10G[end:])


@pytest.mark.parametrize("odd", ["\x01", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_a_control_character_in_a_name_costs_nothing_else(odd: str):
    seen = read_report(A10G.replace("NVIDIA A10G", f"NVIDIA{odd}A10G"))
    assert msgspec.structs.replace(only(seen.cards), name=None) == msgspec.structs.replace(
        only(read_report(A10G).cards), name=None
    )
