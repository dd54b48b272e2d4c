"""Where the demo keeps things, on a machine where services ran before and on one that is full."""

import stat
from pathlib import Path

import pytest

from llmgw.local.demo import kept_or_own, own_directory


def test_a_state_directory_that_services_made_is_good_enough_for_the_demo(tmp_path: Path) -> None:
    beside = tmp_path / "llmgw"
    beside.mkdir(mode=0o755)
    made = own_directory(beside)
    assert made.parent == beside
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert own_directory(beside) != made


def test_a_cache_that_an_agent_made_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "weights").mkdir(mode=0o755)
    for kept in (tmp_path / "weights", tmp_path / "engines"):
        assert kept_or_own(kept, tmp_path / "own") == kept
        assert kept.is_dir()
    assert capsys.readouterr().err == ""


def test_without_a_cache_the_demo_keeps_downloads_itself_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("not a directory")
    kept = tmp_path / "file" / "weights"
    assert kept_or_own(kept, tmp_path / "own") == tmp_path / "own"
    assert f"{kept} can't be used (Not a directory)" in capsys.readouterr().err
