"""`llmgw observability`: files as Prometheus finds them, and what becomes of those of others."""

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from llmgw.base.errors import Conflict, Refused, Usage
from llmgw.cli.main import app

RULES = "rules/llmgw.rules.yml"


def export(directory: Path, *more: str) -> dict[str, str]:
    """Run the command and return each file's outcome."""
    answer = CliRunner().invoke(
        app, ["observability", "export", str(directory), "-o", "json", *more]
    )
    if answer.exception is not None:
        raise answer.exception
    return {row["file"]: row["outcome"] for row in json.loads(answer.stdout)}


def test_an_export_writes_and_writes_again(tmp_path: Path) -> None:
    assert set(export(tmp_path / "new").values()) == {"created"}
    assert set(export(tmp_path / "new").values()) == {"unchanged"}
    outcomes = export(tmp_path / "new", "--runbook-base", "https://wiki.example/alerts")
    assert outcomes[RULES] == "changed"
    assert "https://wiki.example/alerts#llmgwnodelost" in (tmp_path / "new" / RULES).read_text()


def test_a_changed_file_stops_the_whole_export_unless_forced(tmp_path: Path) -> None:
    export(tmp_path)
    theirs = tmp_path / RULES
    theirs.write_text(theirs.read_text() + "# ours\n")
    board = tmp_path / "dashboards" / "llmgw-node.json"
    before = board.stat().st_mtime_ns
    with pytest.raises(Conflict, match=rf"changed since it was exported: {RULES}$"):
        export(tmp_path, "--target", "control:7441")
    assert theirs.read_text().endswith("# ours\n")
    assert board.stat().st_mtime_ns == before
    assert export(tmp_path, "--force")[RULES] == "changed"
    assert not theirs.read_text().endswith("# ours\n")


def test_a_dry_run_says_and_writes_nothing(tmp_path: Path) -> None:
    place = tmp_path / "never"
    assert set(export(place, "--dry-run").values()) == {"created"}
    assert not place.exists()


def test_nothing_is_left_beside_the_files(tmp_path: Path) -> None:
    outcomes = export(tmp_path)
    found = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert found == {*outcomes, "manifest.json"}


def test_nothing_is_written_through_a_link_that_somebody_put_beside_a_file(tmp_path: Path) -> None:
    export(tmp_path / "to")
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    (tmp_path / "to" / "rules" / ".llmgw.rules.yml.new").symlink_to(victim)
    (tmp_path / "to" / RULES).unlink()
    export(tmp_path / "to", "--force")
    assert victim.read_text() == "theirs"
    assert (tmp_path / "to" / RULES).stat().st_mode & 0o777 == 0o644


def test_an_address_that_is_a_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="would evaluate"):
        export(tmp_path, "--runbook-base", "https://wiki.example/{{ $labels.node }}")


def test_a_place_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("x")
    with pytest.raises(Exception, match="taken"):
        export(tmp_path / "taken")


def test_a_directory_that_may_not_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*args: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", forbidden)
    with pytest.raises(Refused, match="Permission denied"):
        export(tmp_path / "x")


@pytest.mark.parametrize("more", [("--target", "control"), ("--runbook-base", "page#part")])
def test_what_is_no_address_is_a_wrong_command_line(tmp_path: Path, more: tuple[str, str]) -> None:
    with pytest.raises(Usage):
        export(tmp_path, *more)


def test_a_target_s_hint_names_the_port_of_the_metrics(tmp_path: Path) -> None:
    with pytest.raises(Usage) as told:
        export(tmp_path, "--target", "foo")
    assert told.value.hint == "write it like head-1:7441"


@pytest.mark.parametrize(("more", "noted"), [((), 1), (("--runbook-base", "https://w.example"), 0)])
def test_paths_as_runbook_urls_are_noted_with_how_they_become_addresses(
    tmp_path: Path, more: tuple[str, ...], noted: int
) -> None:
    answer = CliRunner().invoke(app, ["observability", "export", str(tmp_path), *more])
    assert answer.exit_code == 0
    assert answer.stderr.count("--runbook-base URL") == noted


def test_the_alerts_can_be_listed() -> None:
    answer = CliRunner().invoke(app, ["observability", "alerts", "-o", "name"])
    assert answer.exit_code == 0
    assert "LlmgwGpuXid" in answer.stdout.splitlines()


@pytest.mark.parametrize(
    "target", ["a:1,b:2", "::1:7441", "head", "head:x", "he\x1b[31mad:1", "head 1:7441", "[a]:1"]
)
def test_a_target_that_is_no_host_and_port_is_refused(target: str, tmp_path: Path) -> None:
    with pytest.raises(Usage, match=r"--target: .* is not an address") as caught:
        export(tmp_path, "--target", target)
    assert caught.value.message.isprintable()
    assert list(tmp_path.iterdir()) == []


def test_targets_of_both_families_are_written(tmp_path: Path) -> None:
    export(tmp_path, "--target", "[fd00::1]:7441", "--target", "head-2:7441")
    text = (tmp_path / "prometheus.yml").read_text()
    assert "'[fd00::1]:7441'" in text
    assert "- head-2:7441" in text


def test_a_token_file_with_blanks_is_one_word_of_the_suggested_command(tmp_path: Path) -> None:
    export(tmp_path, "--token-file", "/etc/my prometheus/llmgw's token")
    text = (tmp_path / "prometheus.yml").read_text()
    (line,) = (line for line in text.splitlines() if "token add" in line)
    words = shlex.split(line.removeprefix("#"))
    assert words[-2:] == [">", "/etc/my prometheus/llmgw's token"]
    for given in ("", "a\nb", "\x1b[31m"):
        with pytest.raises(Usage, match="--token-file"):
            export(tmp_path, "--token-file", given)
