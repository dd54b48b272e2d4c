"""`llmgw ctl model edit`: an editor of the environment's, and nothing lost of what was written."""

import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from llmgw.base.errors import Conflict, Refused, Unreadable, Usage
from llmgw.cli import session
from llmgw.cli.main import app
from tests.fakes.catalog_api import MODEL, CatalogApi


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> CatalogApi:
    there = CatalogApi()
    monkeypatch.setattr(session, "connect", lambda: there)
    return there


def ctl(*argv: str) -> Any:
    return CliRunner().invoke(app, ["ctl", "model", *argv])


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Make an editor of a line of shell; `$1` is the file."""
    program = tmp_path / "an editor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"'{program}'")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def kept(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.glob("llmgw-edit-*/model.yaml"))


def test_what_is_edited_is_put(
    cluster: CatalogApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(tmp_path, monkeypatch, "sed -i 's/cpu_cores: 2/cpu_cores: 6/' \"$1\"")
    answer = ctl("edit", "org/qwen")
    assert answer.exit_code == 0, answer.output
    assert cluster.profile.cpu_cores == 6
    assert kept(tmp_path) == []


def test_a_dry_run_keeps_what_was_written(
    cluster: CatalogApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(tmp_path, monkeypatch, "sed -i 's/cpu_cores: 2/cpu_cores: 6/' \"$1\"")
    answer = ctl("edit", "org/qwen", "--dry-run")
    assert answer.exit_code == 0, answer.output
    assert cluster.put_ == []
    assert f"what you wrote is kept: {kept(tmp_path)[0]}" in answer.stderr


@pytest.mark.parametrize("script", ["true", ': > "$1"'])
def test_a_text_that_is_the_same_or_empty_changes_nothing(
    cluster: CatalogApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    editor(tmp_path, monkeypatch, script)
    answer = ctl("edit", "org/qwen")
    assert answer.exit_code == 0, answer.output
    assert answer.stderr == "org/qwen: nothing was changed\n"
    assert cluster.put_ == []


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("echo 'nodez: 2' >> \"$1\"", Unreadable),
        ("echo '  - [' >> \"$1\"", Unreadable),
        ("sed -i 's/replicas: 1/replicas: -1/' \"$1\"", Unreadable),
        ("sed -i 's,org/qwen,other,' \"$1\"", Usage),
        ("printf '\\377' >> \"$1\"", Unreadable),
        ("exit 3", Refused),
    ],
)
def test_what_is_not_sound_is_refused_and_kept(
    cluster: CatalogApi,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    error: type[Exception],
) -> None:
    editor(tmp_path, monkeypatch, script)
    answer = ctl("edit", "org/qwen")
    assert isinstance(answer.exception, error)
    assert len(kept(tmp_path)) == 1
    assert cluster.put_ == []


def test_what_was_written_is_kept_when_somebody_was_faster(
    cluster: CatalogApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.meanwhile = msgspec.structs.replace(MODEL, generation=3)
    editor(tmp_path, monkeypatch, "sed -i 's/cpu_cores: 2/cpu_cores: 6/' \"$1\"")
    answer = ctl("edit", "org/qwen")
    assert isinstance(answer.exception, Conflict)
    assert "org/qwen: meanwhile ada changed generation: 0 -> 3" in answer.stderr
    assert f"what you wrote is kept: {kept(tmp_path)[0]}" in answer.stderr


def test_an_editor_that_is_not_there_is_said(
    cluster: CatalogApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", os.devnull + "/nothing")
    answer = ctl("edit", "org/qwen")
    assert isinstance(answer.exception, Usage)
    assert "can't be started" in answer.exception.message
