"""At 80 cells figures are whole, marks say what they mean, and what is shared is at the margin."""

import msgspec

from llmgw.model.device import Device
from llmgw.model.fabric import Port
from llmgw.model.node import Inventory, Node
from llmgw_tui.draw import devices, fabric, node, overview
from llmgw_tui.draw.chart import Trend, chart
from llmgw_tui.draw.page import PageLine
from llmgw_tui.draw.seen import FleetSeen, NodeSeen, When
from llmgw_tui.draw.states import DOWN
from tests.fakes.fleet_parts import NOW
from tests.unit.tui.seen import fleet_of


def text_of(lines: tuple[PageLine, ...] | list[PageLine]) -> list[str]:
    return ["".join(piece.text for piece in line.pieces) for line in lines]


def title(width: int) -> str:
    values = (1.9e12, None, 9.9e11, 1.2e12)
    drawn = chart(Trend("gpu0 memory", values, 3, 60.0, "bytes"), width, 6)
    return "".join(piece.text for piece in drawn[0])


def test_a_chart_s_title_says_less_before_it_cuts_a_figure() -> None:
    whole = "gpu0 memory  now 1.2 TB  min 990 GB  max 1.9 TB  gaps 1m"
    assert title(80) == whole
    assert title(len(whole)) == whole
    assert title(len(whole) - 1) == "gpu0 memory  now 1.2 TB  max 1.9 TB  gaps 1m"
    assert title(40) == "gpu0 memory  now 1.2 TB  gaps 1m"
    assert title(24) == "gpu0 memory  now 1.2 TB"


def test_memory_is_told_whole_at_80_cells() -> None:
    for name, machine in (("gpu8", "gpu-01"), ("mixed", "a100-01")):
        fleet, when = fleet_of(name)
        seen = fleet.node(machine)
        assert seen is not None
        lines = text_of(node.page(seen, when, 80, 24))
        (memory,) = [line for line in lines if line.startswith("memory ") and " of " in line]
        assert len(memory) <= 80


def test_the_table_of_devices_says_what_work_is() -> None:
    fleet, when = fleet_of("gpu8")
    seen = fleet.node("gpu-01")
    assert seen is not None
    section = devices.section(seen, when, 80)
    assert section is not None
    notes = "".join(piece.text for piece in section.notes)
    assert notes == "6 of 8 held; work: p draw of limit, s SMs active"
    lines = text_of(section.lines)
    assert " 78%s " in lines[1]
    assert next(line for line in lines if line.startswith("gpu7")).split()[5] == "87%p"


def sick(count: int) -> NodeSeen:
    cards = tuple(
        Device(uuid=f"GPU-{n}", number=n, kind="gpu", unhealthy=("no answer",))
        for n in range(count)
    )
    names = "gpu0, gpu1" if count == 2 else f"gpu0-gpu{count - 1}"
    health = (f"{names}: no answer",)
    return NodeSeen(
        Node(id="n", liveness="ready", health=health, inventory=Inventory(devices=cards))
    )


def test_what_many_devices_have_is_at_the_margin_and_what_one_has_below_it() -> None:
    section = devices.section(sick(3), When(NOW), 80)
    assert section is not None
    assert text_of(section.lines)[-1] == "▲ gpu0-gpu2: no answer"
    section = devices.section(sick(2), When(NOW), 80)
    assert section is not None
    assert text_of(section.lines)[-1] == "      ▲ no answer"


def test_one_cause_of_all_devices_is_one_line_of_what_is_sick() -> None:
    page = text_of(overview.page(FleetSeen(nodes=(sick(8),)), When(NOW), 80, 40))
    assert sum("no answer" in line for line in page) == 1
    (line,) = [line for line in page if "no answer" in line]
    assert "n/gpu0-gpu7" in line


def test_a_port_that_went_down_has_the_mark_of_what_failed() -> None:
    port = Port(adapter="mlx5_0", number=1, state="DOWN", physical_state="Polling")
    assert fabric.port_state(port, fell=True).kind == DOWN
    assert fabric.port_state(port).glyph.text == "–"
    seen = NodeSeen(Node(id="n", liveness="ready", inventory=Inventory(ports=(port,))))
    words = "port mlx5_0/1 went down: it was active and is DOWN"
    fell = NodeSeen(msgspec.structs.replace(seen.node, health=(words,)))
    for one, mark in ((seen, "– down, polling"), (fell, "✖ down, polling")):
        section = fabric.section(one, 80)
        assert section is not None
        assert mark in text_of(section.lines)[0]
