"""Commands that change one model of the catalog."""

from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from llmgw.base.errors import Conflict, NotFound, Refused, Unreadable, Usage
from llmgw.cli import session
from llmgw.cli.ctl.model_change import changes
from llmgw.cli.main import app
from llmgw.model.catalog import Profile, Scaling
from tests.fakes.catalog_api import MODEL, CatalogApi


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> CatalogApi:
    there = CatalogApi()
    monkeypatch.setattr(session, "connect", lambda: there)
    return there


def ctl(*argv: str, **more: Any) -> Any:
    return CliRunner().invoke(app, ["ctl", "model", *argv], **more)


def test_scale_changes_how_many_are_wanted_and_nothing_else(cluster: CatalogApi) -> None:
    answer = ctl("scale", "org/qwen", "2")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout == "org/qwen is version 8\n"
    assert "profiles[0].replicas: 1 -> 2" in answer.stderr
    assert cluster.profile == msgspec.structs.replace(MODEL.profiles[0], replicas=2)


def test_more_than_the_most_raises_the_most(cluster: CatalogApi) -> None:
    assert ctl("scale", "org/qwen", "5").exit_code == 0
    assert (cluster.profile.replicas, cluster.profile.max_replicas) == (5, 5)


def test_the_most_can_be_said(cluster: CatalogApi) -> None:
    assert ctl("scale", "org/qwen", "0", "--max", "9").exit_code == 0
    assert (cluster.profile.replicas, cluster.profile.max_replicas) == (0, 9)


def test_a_most_below_what_is_wanted_is_refused_with_its_path(cluster: CatalogApi) -> None:
    answer = ctl("scale", "org/qwen", "5", "--max", "2")
    assert isinstance(answer.exception, Unreadable)
    assert "profiles[0].max_replicas: 2 is not between 5 and 10000" in answer.stderr
    assert cluster.put_ == []


def test_what_is_so_already_is_not_put(cluster: CatalogApi) -> None:
    answer = ctl("scale", "org/qwen", "1")
    assert answer.exit_code == 0
    assert answer.stderr == "org/qwen: is so already; nothing was changed\n"
    assert cluster.put_ == []


@pytest.mark.parametrize(
    "argv",
    [
        ("scale", "org/qwen", "2"),
        ("resources", "org/qwen", "--memory", "8"),
        ("restart", "org/qwen"),
    ],
)
def test_a_dry_run_says_what_would_change_and_changes_nothing(
    cluster: CatalogApi, argv: tuple[str, ...]
) -> None:
    answer = ctl(*argv, "--dry-run")
    assert answer.exit_code == 0, answer.output
    assert "nothing was changed" in answer.stderr
    assert cluster.put_ == []


@pytest.mark.parametrize(
    "argv", [("scale", "nope", "2"), ("edit", "nope"), ("restart", "nope"), ("resources", "nope")]
)
def test_a_model_that_is_not_there_is_not_found(cluster: CatalogApi, argv: tuple[str, ...]) -> None:
    assert isinstance(ctl(*argv).exception, NotFound)


def test_one_of_several_profiles_has_to_be_named(cluster: CatalogApi) -> None:
    answer = ctl("scale", "two", "2")
    assert isinstance(answer.exception, Usage)
    assert answer.exception.message == "two has 2 profiles: default, b"
    answer = ctl("scale", "two", "2", "--profile", "c")
    assert isinstance(answer.exception, NotFound)
    answer = ctl("scale", "two", "2", "--profile", "b", "--dry-run")
    assert "two: profiles[1].replicas: 1 -> 2" in answer.stderr


def test_a_change_made_meanwhile_is_refused(cluster: CatalogApi) -> None:
    cluster.meanwhile = True
    assert isinstance(ctl("scale", "org/qwen", "2").exception, Conflict)


def test_resources_sets_both_once_somebody_agreed(cluster: CatalogApi) -> None:
    argv = ("resources", "org/qwen", "--memory", "8", "--cores", "4")
    assert ctl(*argv, input="no\n").exit_code != 0
    assert cluster.put_ == []
    answer = ctl(*argv, "--yes")
    assert answer.exit_code == 0, answer.output
    assert (cluster.profile.min_memory_gb, cluster.profile.cpu_cores) == (8, 4)


def test_resources_alone_shows_what_is_reserved_and_used(cluster: CatalogApi) -> None:
    answer = ctl("resources", "org/qwen")
    assert answer.exit_code == 0, answer.output
    assert answer.stderr == "org/qwen (default): 4 GB and 2 cores a replica\n"
    head, row = answer.stdout.splitlines()
    assert head.split() == ["REPLICA", "NODE", "MEMORY", "RESERVED", "CORES", "RESERVED", "WARNING"]
    assert row.split(maxsplit=6)[:6] == ["qwen-1", "n1", "3.9", "GB", "4.0", "GB"]
    assert "uses nearly all of its memory, uses more cores than are reserved" in row


def test_what_no_node_measured_shows_as_absent(cluster: CatalogApi) -> None:
    cluster.samples = []
    row = ctl("resources", "org/qwen").stdout.splitlines()[1]
    assert row.split() == ["qwen-1", "n1", "-", "4.0", "GB", "-", "2.0", "-"]


def test_restart_raises_the_generation_and_says_what_it_replaces(cluster: CatalogApi) -> None:
    answer = ctl("restart", "org/qwen", "--yes")
    assert answer.exit_code == 0, answer.output
    ((model, _),) = cluster.put_
    assert model == msgspec.structs.replace(MODEL, generation=1)
    answer = ctl("restart", "org/qwen", "--dry-run")
    assert "1 replica (1 ready) will be replaced" in answer.stderr


def test_what_ended_and_what_leaves_is_not_counted_among_what_goes(cluster: CatalogApi) -> None:
    for number, state in enumerate(("failed", "draining", "starting"), start=2):
        one = {"id": f"qwen-{number}", "model": "org/qwen", "state": state}
        cluster.replicas.append({**cluster.replicas[0], **one})
    assert "2 replicas (1 ready) will be" in ctl("restart", "org/qwen", "--dry-run").stderr
    assert "3 replicas will be stopped" in ctl("rm", "org/qwen", "--dry-run").stderr


def test_a_model_that_is_not_rolled_can_not_be_restarted(cluster: CatalogApi) -> None:
    cluster.models["org/qwen"] = msgspec.structs.replace(MODEL, roll_when_stale=False)
    answer = ctl("restart", "org/qwen", "--yes")
    assert isinstance(answer.exception, Refused)
    assert answer.exception.hint == ("set roll_when_stale: true: llmgw ctl model edit org/qwen")


def test_a_list_that_grew_is_shown_whole() -> None:
    more = msgspec.structs.replace(MODEL, profiles=(*MODEL.profiles, Profile(name="b", engine="x")))
    assert len(changes(MODEL, more)) == 1
    scaled = msgspec.structs.replace(MODEL.profiles[0], scaling=Scaling(queued=2))
    (line,) = changes(MODEL, msgspec.structs.replace(MODEL, profiles=(scaled,)))
    assert line.startswith("profiles[0].scaling: null -> {")
