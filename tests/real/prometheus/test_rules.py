"""Prometheus's own tool on what is exported: rules, their unit tests, and how to scrape."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from llmgw.cli.main import app

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool on this machine"),
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("exported")
    answer = CliRunner().invoke(app, ["observability", "export", str(directory)])
    assert answer.exit_code == 0, answer.output
    return directory


def promtool(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["promtool", *arguments],
        check=False,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_every_rule_fires_and_is_silent_as_its_cases_say(exported: Path) -> None:
    done = promtool(exported / "rules", "test", "rules", "llmgw.rules.test.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_the_scrape_configuration_and_its_rules_are_right(exported: Path) -> None:
    done = promtool(exported, "check", "config", "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is valid prometheus config file syntax" in done.stdout
    assert "rules found" in done.stdout


def test_a_rule_that_is_broken_fails_its_tests(exported: Path, tmp_path: Path) -> None:
    rules, tests = (
        (exported / "rules" / name).read_text()
        for name in ("llmgw.rules.yml", "llmgw.rules.test.yml")
    )
    wrong = rules.replace("llmgw_gpu_row_remap_failed == 1", "llmgw_gpu_row_remap_failed == 2")
    assert wrong != rules
    (tmp_path / "llmgw.rules.yml").write_text(wrong)
    kept = yaml.safe_load(tests)
    kept["tests"] = [one for one in kept["tests"] if one["name"].startswith("LlmgwGpuRowRemap")]
    (tmp_path / "t.yml").write_text(yaml.safe_dump(kept))
    done = promtool(tmp_path, "test", "rules", "t.yml")
    assert done.returncode != 0
    assert "LlmgwGpuRowRemapFailed 1: fires" in done.stdout + done.stderr
