"""`llmgw parse`: a recorded text as an agent reads it."""

import json
from pathlib import Path

from typer.testing import CliRunner

from llmgw.base.errors import Usage
from llmgw.cli.main import app

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
