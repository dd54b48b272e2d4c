import io
import json
import sys
from typing import Any

import pytest

from llmgw.base.errors import Refused, Usage
from llmgw.cli import output, show
from llmgw.cli.ctl import status
from llmgw.cli.main import report
from llmgw.cli.options import Format
from llmgw.cli.output import Column, agreed, confirm, print_rows, table
from llmgw.model.device import Device
from llmgw.model.node import Heartbeat, Host, InstalledEngine, Inventory, Node, Sample
from llmgw.model.replica import Replica, ReplicaShard
from llmgw.model.shard import ComputeReport, Progress

Line = dict[str, Any]
ROWS: list[Line] = [{"id": "a", "n": 1}, {"id": "bbb", "n": None}]
COLUMNS: tuple[Column[Line], ...] = (
    Column("ID", lambda r: r["id"]),
    Column("N", lambda r: show.text(r["n"]), right=True),
    Column("MORE", lambda r: "x", wide=True),
)


def printed(form: Format, capsys: pytest.CaptureFixture[str], rows: list[Line] = ROWS) -> str:
    print_rows(rows, COLUMNS, form, name=lambda r: r["id"], empty="nobody")
    return capsys.readouterr().out


def test_a_table_lines_its_columns_up_and_shows_a_dash_for_what_is_not_known() -> None:
    assert table(ROWS, COLUMNS, wide=False) == ["ID   N", "a    1", "bbb  -"]


def test_wide_shows_more(capsys: pytest.CaptureFixture[str]) -> None:
    assert "MORE" in printed(Format.WIDE, capsys)
    assert "MORE" not in printed(Format.TABLE, capsys)


def test_json_yaml_and_names_are_data_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(Format.JSON, capsys)) == ROWS
    assert printed(Format.YAML, capsys).startswith("- id: a")
    assert printed(Format.NAME, capsys) == "a\nbbb\n"


def test_an_empty_list_is_said_on_stderr_and_is_empty_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows([], COLUMNS, Format.TABLE, name=str, empty="nobody")
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("", "nobody\n")
    assert printed(Format.JSON, capsys, []).strip() == "[]"


ESCAPES = "\x1b[2J\x1b]0;title\x07\x9b31m\r\u202e\nforged"


def test_control_characters_never_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    lines = table([{"id": ESCAPES, "n": 1}], COLUMNS, wide=False)
    assert all(line.isprintable() for line in lines)
    assert printed(Format.NAME, capsys, [{"id": ESCAPES}]).rstrip("\n").isprintable()
    report(Refused(ESCAPES, hint=ESCAPES))
    said = capsys.readouterr().err
    assert all(line.isprintable() for line in said.split("\n"))


def test_a_status_quotes_what_nodes_say_as_text_alone() -> None:
    answer = {
        "cluster": ESCAPES,
        "server": ESCAPES,
        "leader": True,
        "version": "0.1.0",
        "term": 1,
        "nodes": {},
        "replicas": {},
        "gateways": [{"id": ESCAPES, "url": ESCAPES, "connected": True}],
        "models": [{"name": ESCAPES, "ready": 0, "wanted": 1, "reason": ESCAPES}],
        "problems": [{"subject": ESCAPES, "words": ESCAPES}],
    }
    assert all(line.isprintable() for line in status.lines(answer))


def test_without_a_terminal_there_is_no_colour_and_nothing_is_cut() -> None:
    rows = [{"id": "ready " + "y" * 300, "n": 1}]
    assert "y" * 300 in table(rows, COLUMNS, wide=False)[1]
    assert not output.colour_wanted()


def test_nothing_dangerous_is_done_when_there_is_nobody_to_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("gpu-03\n"))
    with pytest.raises(Usage, match="nobody to ask"):
        confirm("it goes", "gpu-03", yes=False)
    confirm("it goes", "gpu-03", yes=True)


def test_what_is_only_described_is_not_done_even_with_yes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not agreed("it goes", "gpu-03", yes=True, dry_run=True)
    assert "it goes; nothing was changed" in capsys.readouterr().err
    assert agreed("it goes", "gpu-03", yes=True, dry_run=False)


def _node(**inventory: Any) -> Node:
    return Node(id="n", liveness="ready", inventory=Inventory(**inventory))


def test_memory_is_a_dash_when_a_node_reports_none() -> None:
    assert show.memory(_node(), None) == "-"
    assert show.memory(_node(host=Host(memory_bytes=24 * 10**9)), None) == "24 GB"
    beat = Heartbeat(sequence=1, memory_bytes=24 * 10**9, memory_available_bytes=24 * 10**9)
    assert show.memory(_node(), Sample(id="n", at=0, heartbeat=beat)) == "0 B / 24 GB"


def test_devices_that_are_not_known_differ_from_none() -> None:
    assert show.device_counts(None) == "-"
    assert show.device_counts(()) == "none"
    devices = tuple(Device(uuid=str(n), device_class="h100-80g") for n in range(8))
    assert show.device_counts(devices) == "8 h100-80g"


def test_a_card_in_mig_mode_counts_as_what_can_be_given_of_it():
    card = Device(uuid="GPU-a", kind="gpu", device_class="a100-80g", mig_enabled=True)
    parts = tuple(
        Device(uuid=f"MIG-{n}", kind="mig", device_class="a100-80g-mig-3g.40gb", card_uuid="GPU-a")
        for n in range(2)
    )
    assert show.device_counts((card, *parts)) == "2 a100-80g-mig-3g.40gb"
    assert show.device_counts((card,)) == "1 a100-80g in MIG mode, nothing carved"


def test_an_engine_that_is_being_installed_shows_the_node_s_own_words() -> None:
    engine = InstalledEngine(
        engine="llamacpp", state="installing", words="installing: downloading (16 MB)"
    )
    assert "downloading (16 MB)" in show.engines(_node(engines=(engine,), engines_probed=True))
    assert show.engines(_node(engines=(), engines_probed=False)) == "-"
    assert show.engines(_node(engines=(), engines_probed=True)) == "none"


def test_progress_without_a_total_has_no_percentage() -> None:
    shard = ReplicaShard(
        rank=0, node="n", progress=Progress(words="fetching weights", done_bytes=16_000_000)
    )
    words = show.replica_words(Replica(id="r", shards=(shard,)))
    assert words == "fetching weights (16 MB so far)"
    assert show.progress("fetching", 1, 2).endswith("(1 B of 2 B)")


def _computing(report: ComputeReport) -> Replica:
    return Replica(id="r", shards=(ReplicaShard(rank=0, node="n", compute=report),))


def test_a_cpu_back_end_never_claims_offloaded_layers() -> None:
    cpu = ComputeReport(back_end="CPU", layers=19, layers_offloaded=19)
    cuda = ComputeReport(back_end="CUDA", layers=33, layers_offloaded=33)
    assert show.back_end(_computing(cpu)) == "CPU"
    assert show.back_end(_computing(cuda)) == "CUDA 33/33"


def test_a_table_without_rows_is_its_heads_alone() -> None:
    assert table([], COLUMNS, wide=False) == ["ID  N"]
