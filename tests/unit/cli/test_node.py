"""`ctl node`: every fact in its section, what is wrong marked without colour, and how it was."""

import io
import json
import math

import msgspec
import pytest
from typer.testing import CliRunner

from llmgw.base.errors import Usage
from llmgw.cli import session
from llmgw.cli.ctl import node_page, node_past, nodes
from llmgw.cli.main import app
from llmgw.cli.options import Format
from llmgw.client.history import read
from llmgw.model.history import NodeHistory, Series
from llmgw.model.node import Heartbeat, Host, Node, ProbeState, Sample, Sensor
from llmgw.model.replica import Replica
from tests.fakes.conditions import past
from tests.fakes.feed import built
from tests.fakes.fleet_parts import NOW
from tests.fakes.fleets import FLEETS


def recorded(fleet: str, name: str) -> tuple[Node, Sample, list[Replica]]:
    topics = FLEETS[fleet]().topics
    node, sample = topics["nodes"][name], topics["samples"][name]
    assert isinstance(node, Node)
    assert isinstance(sample, Sample)
    replicas = [
        one
        for one in topics.get("replicas", {}).values()
        if isinstance(one, Replica) and any(part.node == name for part in one.shards)
    ]
    return node, sample, replicas


def page(fleet: str, name: str) -> list[str]:
    node, sample, replicas = recorded(fleet, name)
    return node_page.page(node, sample, replicas, NOW)


def section(lines: list[str], title: str) -> list[str]:
    start = lines.index(title) + 1
    end = lines.index("", start) if "" in lines[start:] else len(lines)
    return lines[start:end]


def test_a_node_of_cards_tells_every_section() -> None:
    lines = page("gpu8", "gpu-01")
    assert [lines[i + 1] for i, line in enumerate(lines) if not line] == [
        "Devices", "Condition", "Ports", "Fabrics", "Disks", "Shared storage", "Engines",
        "Replicas", "Sensors", "Probes",
    ]  # fmt: skip
    head, first, *_ = section(lines, "Devices")
    assert head.split() == [
        "DEVICE", "CLASS", "STATE", "MEMORY", "BUSY", "WORK", "HEAT", "POWER", "HELD", "BY",
    ]  # fmt: skip
    assert first.split("  ")[0] == "gpu0"
    for words in ("h100-80g", "71 of 86 GB", "91%", "78% (SMs active)", "64°C, memory 71°C"):
        assert words in first
    assert first.endswith("612 of 700 W  llama-3-3-70b-a1b2c3")


def test_what_is_wrong_is_marked_and_stands_first_each_cause_once() -> None:
    lines = page("gpu8", "gpu-01")
    condition = section(lines, "Condition")
    lost = "XID 79 once, last 10m10s ago: GPU has fallen off the bus; reboot the machine"
    assert [line for line in lines if "XID 79" in line] == [f"gpu5              ! {lost}"]
    assert "             ! gpu5: out of order, see Condition" in lines
    marks = ["! " in line for line in condition]
    assert marks == sorted(marks, reverse=True)
    assert condition[-1].startswith("gpu7 ")
    assert any(line.startswith("gpu0, gpu3, gpu4  no ECC errors") for line in condition)


def test_probes_say_age_period_since_when_and_why_the_failing_first() -> None:
    head, first, second, third, *_ = section(page("gpu8", "gpu-01"), "Probes")
    assert head.split("  ")[0] == "PROBE"
    assert first.split() == [
        "dcgm", "!", "fails", "never", "10s", "3d00h", "http://127.0.0.1:9400:", "connection",
        "refused",
    ]  # fmt: skip
    assert second.split()[:8] == [
        "health",
        "!",
        "fails",
        "14m00s",
        "ago",
        "1m00s",
        "13m35s",
        "nvidia-smi",
    ]
    assert third.split() == ["memory", "fine", "2.0s", "ago", "5.0s", "-", "-"]


def test_fabrics_of_which_no_administrator_tells_say_so() -> None:
    node, sample, replicas = recorded("gpu8", "gpu-01")
    silent = msgspec.structs.replace(node.inventory, subnet_managers=(), nvlink_domain=None)
    lines = node_page.page(msgspec.structs.replace(node, inventory=silent), sample, replicas, NOW)
    (line,) = section(lines, "Fabrics")
    assert line.startswith("subnet managers  master 0x")
    assert line.endswith("others not known: no subnet administrator answers saquery")


def test_instances_are_named_under_their_card() -> None:
    devices = section(page("mixed", "a100-01"), "Devices")
    assert [line.split()[0] for line in devices[1:]] == [
        "gpu0", "gpu1", "gpu2", "gpu3", "gpu3/mig1", "gpu3/mig2",
    ]  # fmt: skip
    assert "cut in 2" in devices[4]
    assert "181 of 400 W" in devices[4]
    assert "31 of 42 GB" in devices[5]


def test_a_node_without_devices_or_readings_has_no_numbers() -> None:
    node = Node(id="new", liveness="ready", since=NOW)
    lines = node_page.page(node, None, [], NOW)
    assert section(lines, "Devices") == ["this node cannot say"]
    assert "cpu use      -, load -" in lines
    assert "memory       -" in lines
    assert not any("0%" in line for line in lines)


@pytest.mark.parametrize("nonsense", [1e308, -1e308, math.nan, math.inf, -math.inf])
def test_no_figure_of_a_node_is_long_whatever_it_says(nonsense: float) -> None:
    node, sample, _ = recorded("gpu8", "gpu-01")
    assert sample is not None
    beat = sample.heartbeat
    figures = ("busy_percent", "power_watts", "power_limit_watts", "temperature_celsius",
               "memory_temperature_celsius")  # fmt: skip
    devices = tuple(
        msgspec.structs.replace(one, **dict.fromkeys(figures, nonsense))
        for one in beat.devices or ()
    )
    beat = msgspec.structs.replace(
        beat,
        devices=devices,
        cpu_percent=nonsense,
        load_average=nonsense,
        sensors=(Sensor(kind="power", label="cpu 0 package", value=nonsense),),
        probes=(ProbeState(name="p", age=nonsense, failing=nonsense, period=nonsense),),
    )
    host = msgspec.structs.replace(
        node.inventory.host or Host(), mem_bandwidth_gbs=nonsense, mem_bandwidth_core_gbs=nonsense
    )
    node = msgspec.structs.replace(
        node,
        since=nonsense,
        certificate_ends=nonsense,
        inventory=msgspec.structs.replace(node.inventory, host=host),
    )
    lines = node_page.page(node, msgspec.structs.replace(sample, heartbeat=beat), [], NOW)
    assert max(len(word) for line in lines for word in line.split()) < 60
    assert not any("nan" in line or "inf" in line for line in lines)


def test_a_lost_node_s_readings_are_not_shown_as_if_they_were_now() -> None:
    node, sample, replicas = recorded("gpu8", "gpu-01")
    lost = msgspec.structs.replace(node, liveness="lost", last_heard=NOW - 600)
    lines = node_page.page(lost, sample, replicas, NOW)
    assert "state        lost for 3d00h, last heard 10m00s ago" in lines
    assert "Probes" not in lines
    assert "91%" not in "\n".join(lines)


def test_unified_memory_is_said() -> None:
    node, sample, _ = recorded("gpu8", "gpu-01")
    (first, *_) = node.inventory.devices or ()
    unified = msgspec.structs.replace(first, unified=True)
    inventory = msgspec.structs.replace(node.inventory, devices=(unified,))
    lines = node_page.page(msgspec.structs.replace(node, inventory=inventory), sample, [], NOW)
    assert "71 of 86 GB, unified" in section(lines, "Devices")[1]


def test_a_card_in_mig_mode_with_nothing_carved_says_so() -> None:
    node, sample, _ = recorded("gpu8", "gpu-01")
    (first, *_) = node.inventory.devices or ()
    bare = msgspec.structs.replace(first, mig_enabled=True, unhealthy=("nothing is carved",))
    inventory = msgspec.structs.replace(node.inventory, devices=(bare,))
    lines = node_page.page(msgspec.structs.replace(node, inventory=inventory), sample, [], NOW)
    assert "unhealthy" in section(lines, "Devices")[1]
    assert "gpu0  ! nothing is carved" in section(lines, "Condition")[0]


def test_health_counts_each_trouble_once_and_names_probes_that_fail() -> None:
    node, sample, _ = recorded("gpu8", "gpu-01")
    warning = "gpu7: PCIe: 8 of 16 lanes, 31 GB/s instead of 63 (lspci -vv)"
    row = nodes.Row(node, sample, NOW)
    assert nodes._health(row) == f"{warning} and 3 more"
    assert nodes._whole_health(row).split("; ") == [
        warning,
        "gpu6: 2 of 18 NVLinks down, errors: 7 CRC",
        "probe dcgm fails for 3d00h: http://127.0.0.1:9400: connection refused",
        "probe health fails for 13m35s: nvidia-smi -q: no answer within 20 s",
    ]
    lost = msgspec.structs.replace(node, liveness="lost")
    assert nodes._health(nodes.Row(lost, sample, NOW)) == warning


def test_a_node_that_is_not_heard_has_no_use_of_cpu_and_memory() -> None:
    node, sample, _ = recorded("gpu8", "gpu-01")
    shown = {column.title: column.show for column in nodes.COLUMNS}

    def said(row: nodes.Row) -> tuple[str, str]:
        return shown["CPU"](row), shown["MEM"](row)

    assert said(nodes.Row(node, sample, NOW)) == ("14%", "411 GB / 2.2 TB")
    lost = msgspec.structs.replace(node, liveness="lost")
    assert said(nodes.Row(lost, sample, NOW)) == ("-", "2.2 TB")


def test_a_device_that_others_use_is_not_free_nor_one_of_a_lost_node() -> None:
    node, sample, replicas = recorded("gpu8", "gpu-01")

    def states(seen: Node) -> list[str]:
        lines = section(node_page.page(seen, sample, replicas, NOW), "Devices")
        return [" ".join(line.split()[2:4]) for line in lines[1:]]

    assert states(node)[4].split()[0] == "foreign"
    lost = states(msgspec.structs.replace(node, liveness="lost"))
    assert [lost[0], lost[4].split()[0]] == ["in use", "away"]


def charts(*names: str, rows: int = 1, ascii_only: bool = False) -> list[str]:
    node, sample, _ = recorded("gpu8", "gpu-01")
    told = past(sample, 60, NOW)
    kept = tuple(one for one in told.series if not names or one.name in names)
    told = msgspec.structs.replace(told, series=kept)
    return node_past.lines(told, node, sample.heartbeat, rows=rows, ascii_only=ascii_only)


def test_a_history_is_a_line_a_series_the_node_s_own_first() -> None:
    lines = charts()
    assert lines[0] == "gpu-01: the last 1h00m, a value each 10 s"
    assert [line[:12].strip() for line in lines[1:5]] == ["cpu", "memory", "load", "gpu0 busy"]
    assert lines[4].endswith("now 91%, min 46%, max 91%")
    assert "gpu7 work (draw of limit)" in "\n".join(lines)
    assert "⣶" in lines[4]


def test_a_series_that_is_asked_for_has_an_axis_and_ends_now() -> None:
    lines = charts("power", rows=4)
    assert lines[1:3] == ["", "gpu0 power  now 612 W, min 306 W, max 612 W"]
    assert lines[3].startswith("    700 W |")
    assert lines[6].startswith("        0 |")
    assert lines[7].endswith("now")


def test_in_ascii_a_gap_is_blank_and_zero_is_not() -> None:
    lines = charts("busy", rows=4, ascii_only=True)
    assert all(line.isascii() for line in lines)
    idle = next(index for index, line in enumerate(lines) if line.startswith("gpu4 busy"))
    row = lines[idle + 4].partition("|")[2]
    assert set(row) == {".", " "}
    assert "." * 10 + "   " in row


def test_a_series_of_gaps_alone_is_words() -> None:
    series = (Series(name="busy", device="GPU-1", unit="percent", values=(None, None)),)
    told = NodeHistory(step=10.0, until=NOW, series=series, source="memory")
    lines = node_past.lines(told, Node(id="n"), Heartbeat(sequence=1), rows=1, ascii_only=False)
    assert lines[1] == "GPU-1 busy  nothing measured"


class Answers:
    """An admin API that knows one node."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...], int]] = []
        self.node, self.sample, _ = recorded("gpu8", "gpu-01")

    def get(self, path: str, query: object = None) -> object:
        assert path == "/nodes/gpu-01"
        shown = built(self.node)
        assert isinstance(shown, dict)
        return {**shown, "sample": built(self.sample.heartbeat)}

    def history(self, node: str, series: tuple[str, ...], minutes: int) -> NodeHistory:
        self.asked.append((node, series, minutes))
        told = msgspec.structs.replace(past(self.sample, minutes, NOW), problem="only an hour")
        return read(built(told))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    found = Answers()
    monkeypatch.setattr(session, "connect", lambda: found)
    return found


def test_the_command_prints_charts_and_says_what_is_missing(
    answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    node_past.show("gpu-01", Format.TABLE, "busy,cpu", 90)
    told = capsys.readouterr()
    assert answers.asked == [("gpu-01", ("busy", "cpu"), 90)]
    assert "gpu0 busy  now 91%" in told.out
    assert told.err == "only an hour\n"


def test_the_command_prints_json_whole(answers: Answers) -> None:
    asked = ["ctl", "node", "gpu-01", "--history", "--minutes", "30", "-o", "json"]
    answer = CliRunner().invoke(app, asked)
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    assert told["step"] == 10.0
    assert None in told["series"][0]["values"]
    assert answers.asked == [("gpu-01", (), 30)]


def test_an_unknown_series_is_told_before_anything_is_asked(answers: Answers) -> None:
    with pytest.raises(Usage, match="no series 'bussy'"):
        node_past.show("gpu-01", Format.TABLE, "bussy", 60)
    assert answers.asked == []


def test_a_terminal_that_cannot_show_braille_gets_ascii(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr("sys.stdout", out)
    node_past.show("gpu-01", Format.TABLE, "busy", 60)
    out.flush()
    assert b"###" in out.buffer.getvalue()
