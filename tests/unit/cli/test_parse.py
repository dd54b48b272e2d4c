"""`llmgw parse`: a recorded text as an agent reads it."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from llmgw.base.errors import Usage
from llmgw.cli.main import app
from llmgw.cli.options import Format
from llmgw.cli.parse import parse
from llmgw_agent.parse.catalog import tool, tools
from llmgw_agent.parse.nvidia_smi import CARD_FIELDS

TITANS = Path(__file__).parents[2] / "fixtures" / "nvidia-smi-csv" / "titanx-8-nounits.csv"


def test_columns_that_a_text_does_not_name_are_named_beside_it():
    fields = "index, uuid,name,temperature.gpu,utilization.gpu,memory.used,memory.total"
    argv = ["parse", "nvidia-smi-csv", "--fields", fields, str(TITANS)]
    answer = CliRunner().invoke(app, argv)
    assert answer.exit_code == 0
    # 0, GPU-26acce60-5966-df85-dd8b-7ad73a76247b, GeForce GTX TITAN X, 25, 0, 802, 12206
    first = json.loads(answer.stdout)["cards"][0]
    assert (first["temperature"], first["memory_used"]) == (25.0, 802 << 20)


def test_a_tool_without_columns_takes_no_names_of_any():
    answer = CliRunner().invoke(app, ["parse", "cpuinfo", "--fields", "a", str(TITANS)])
    assert isinstance(answer.exception, Usage)
    assert "what cpuinfo reads has no columns" in str(answer.exception)


def test_without_a_tool_it_says_that_none_is_named_and_where_they_are_listed():
    answer = CliRunner().invoke(app, ["parse"])
    assert isinstance(answer.exception, Usage)
    assert (answer.exception.message, answer.exception.hint) == (
        "no tool named",
        "llmgw parse --list tells which there are",
    )


def test_tools_are_listed_as_json_and_as_a_table_that_is_never_cut(monkeypatch):
    listed = json.loads(CliRunner().invoke(app, ["parse", "--list"]).stdout)
    monkeypatch.setenv("COLUMNS", "40")
    lines = CliRunner().invoke(app, ["parse", "--list", "-o", "table"]).stdout.splitlines()
    assert lines[0].split() == ["TOOL", "RUN"]
    assert [line.split(None, 1) for line in lines[1:]] == [
        [one["name"], one["how"]] for one in listed
    ]


def test_on_a_terminal_the_list_is_a_table_unless_json_is_asked_for(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    parse(listed=True)
    assert capsys.readouterr().out.startswith("TOOL")
    parse(listed=True, output=Format.JSON)
    assert capsys.readouterr().out.startswith("[")


def test_what_is_listed_to_run_has_no_place_to_be_filled_in():
    for one in tools():
        assert not re.search(r"…|\.\.\.|\b(PATH|FILE)\b|\(or ", one.how), one.how


def test_the_query_that_is_listed_asks_for_fields_that_are_read():
    query = tool("nvidia-smi-csv").how.partition("--query-gpu=")[2].split(",")
    assert len(query) > 5
    assert set(query) <= set(CARD_FIELDS)


@pytest.mark.parametrize("form", ["table", "wide", "name"])
def test_a_record_is_no_table_and_that_is_said(form: str):
    tree = TITANS.parents[1] / "rapl" / "intel-rapl.tsv"
    answer = CliRunner().invoke(app, ["parse", "rapl", str(tree), "-o", form])
    assert isinstance(answer.exception, Usage)
    assert f"-o {form} is for --list alone" in answer.exception.message
    assert answer.stdout == ""
