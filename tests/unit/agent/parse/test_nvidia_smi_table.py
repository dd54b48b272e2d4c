"""nvidia-smi's table: values typed from the text, which stands beside them."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.cards import Card, CardProcess, Instance
from llmgw_agent.parse.nvidia_smi_table import Table, read_table
from tests.only import only

FIXTURES = Path(__file__).parents[3] / "fixtures" / "nvidia-smi-table"
MIB = 1 << 20


def table(name: str) -> Table:
    return read_table((FIXTURES / name).read_text())


def test_a_plain_table():
    # |   0  NVIDIA A10                     On  |   00000000:06:00.0 Off |                    0 |
    # |  0%   32C    P8             21W /  150W |       1MiB /  23028MiB |      0%      Default |
    # |                                         |                        |                  N/A |
    # |  No running processes found                                                             |
    assert table("1x-a10-550.txt") == Table(
        driver="550.127.05",  # Driver Version: 550.127.05
        cuda="12.4",  # CUDA Version: 12.4
        cards=(
            Card(
                index=0,
                name="NVIDIA A10",
                pci_address="00000000:06:00.0",
                memory_total=23028 * MIB,
                memory_used=1 * MIB,
                memory_of_its_own=True,
                busy=0.0,
                temperature=32.0,
                power=21.0,
                power_limit=150.0,
                fan=0.0,
                mig=None,
                ecc_uncorrected=0,
                processes=(),
            ),
        ),
    )


def test_a_fan_that_can_not_be_read_costs_itself():
    # |   0  NVIDIA GeForce ...  Off  | 00000000:01:00.0 Off |                    0 |
    # |ERR!   38C    P5    49W / 450W |   2021MiB / 23028MiB |      0%   E. Process |
    # |                               |                      |                  N/A |
    assert table("1x-geforce-525-ERR.txt") == Table(
        driver="525.125.06",  # Driver Version: 525.125.06
        cuda="12.0",  # CUDA Version: 12.0
        cards=(
            Card(
                index=0,
                name="NVIDIA GeForce ...",
                pci_address="00000000:01:00.0",
                memory_total=23028 * MIB,
                memory_used=2021 * MIB,
                memory_of_its_own=True,
                busy=0.0,
                temperature=38.0,
                power=49.0,
                power_limit=450.0,
                fan=None,
                mig=None,
                ecc_uncorrected=0,
                processes=None,  # the section is not there
            ),
        ),
    )


def test_eight_cards():
    seen = table("8x-550.txt")
    assert (seen.driver, seen.cuda, seen.carved) == ("550.90.07", "12.4", None)
    # Bus-Id 00000000:19:00.0, 3B, 4C, 5D, 9B, BB, CB, DB
    buses = ("19", "3B", "4C", "5D", "9B", "BB", "CB", "DB")
    heat = (27, 24, 23, 23, 27, 22, 24, 23)  # 27C, 24C, 23C, 23C, 27C, 22C, 24C, 23C
    draw = (72, 74, 70, 72, 73, 74, 73, 72)  # 72W, 74W, 70W, 72W, 73W, 74W, 73W, 72W
    assert seen.cards == tuple(
        Card(
            index=index,
            name="NVIDIA H100 80GB HBM3",
            pci_address=f"00000000:{buses[index]}:00.0",
            memory_total=81559 * MIB,  # 1MiB /  81559MiB
            memory_used=1 * MIB,
            memory_of_its_own=True,
            busy=0.0,  # 0%
            temperature=float(heat[index]),
            power=float(draw[index]),
            power_limit=700.0,  # /  700W
            fan=None,  # N/A
            mig=False,  # Disabled
            ecc_uncorrected=0,  # Off |                    0 |
            processes=(),  # No running processes found
        )
        for index in range(8)
    )


def test_mig_mode_with_nothing_carved():
    # | MIG devices:                                                                |
    # |  No MIG devices found                                                       |
    assert table("a100-mig-on-none-carved.txt") == Table(carved=0)


CARVED = """\
|   0  NVIDIA A100-SXM4-40GB          On  | 00000000:E3:00.0 Off |                   On |
| N/A   25C    P0              46W / 400W |    259MiB / 40960MiB |     N/A      Default |
|                                         |                      |              Enabled |
| MIG devices:                                                                          |
| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |
|  0    2   0   0  |              37MiB / 19968MiB  | 42      0 |  3   0    2    0    0 |
|                  |               0MiB / 32767MiB  |           |                       |
| Processes:                                                                            |
|    0    2    0      4711      C   python                                       35MiB |
|    0   N/A  N/A     4712      C   VLLM::Worker_TP1                          88438MiB |
"""
"""In the form of NVIDIA's MIG guide; what is recorded here has nothing carved."""


def test_instances_and_the_processes_on_them():
    seen = read_table(CARVED)
    card = only(seen.cards)
    assert (card.mig, card.busy, seen.carved) == (True, None, 1)
    assert card.instances == (
        Instance(
            index=0,
            gpu_instance=2,
            compute_instance=0,
            multiprocessors=42,
            memory_total=19968 * MIB,
            memory_used=37 * MIB,
            processes=(CardProcess(pid=4711, name="python", memory_bytes=35 * MIB, kind="C"),),
        ),
    )
    worker = CardProcess(pid=4712, name="VLLM::Worker_TP1", memory_bytes=88438 * MIB, kind="C")
    assert card.processes == (worker,)


def test_newer_drivers_say_kmd_and_umd_and_tell_of_a_lost_card_above_the_table():
    text = (FIXTURES / "1x-a10-550.txt").read_text()
    newer = text.replace("Driver Version:", "KMD Version:").replace("CUDA V", "CUDA UMD V")
    lost = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error\n"
    seen = read_table(lost + newer)
    assert (seen.driver, seen.cuda) == ("550.127.05", "12.4")
    assert [(card.index, card.trouble is None) for card in seen.cards] == [(0, True), (1, False)]


def test_what_is_no_table_is_unreadable_and_quoted():
    with pytest.raises(Unreadable, match="No devices"):
        read_table("No devices were found")


LINES = st.sampled_from(CARVED.splitlines())


@given(st.one_of(st.text(), st.lists(st.one_of(LINES, LINES.map(lambda s: s[:50]))).map("\n".join)))
def test_no_table_raises_anything_but_unreadable(text: str):
    with suppress(Unreadable):
        read_table(text)
