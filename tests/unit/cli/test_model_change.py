"""Commands that change one model of the catalog."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from llmgw.base.errors import Conflict, NotFound, Refused, Unreadable, Usage
from llmgw.cli import session
from llmgw.cli.main import app
from llmgw.model.catalog import Profile, Scaling
from llmgw.model.changes import changes
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


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_none_at_least_says_when_the_last_replica_goes(
    cluster: CatalogApi, more: tuple[str, ...]
) -> None:
    answer = ctl("scale", "org/qwen", "0", "--max", "1", *more)
    assert answer.stderr.endswith(
        "org/qwen: its last replica goes when nothing was asked of it for 5m00s "
        "(scaling.down_window; scaling.idle_stop says another time), and a request starts "
        "1 replica\n"
    )
    assert "its last replica goes when" in ctl("scale", "org/qwen", "0", *more).stderr


def test_none_at_all_says_that_no_request_starts_one(cluster: CatalogApi) -> None:
    words = "two: it has no replica, and no request starts one: max_replicas allows it"
    assert words in ctl("scale", "two", "0", "--profile", "b").stderr
    idle = msgspec.structs.replace(MODEL.profiles[0], scaling=Scaling(idle_stop=3600))
    cluster.models["org/qwen"] = msgspec.structs.replace(MODEL, profiles=(idle,))
    words = "its last replica goes when nothing was asked of it for 1h00m, and a request starts"
    assert words in ctl("scale", "org/qwen", "2").stderr
    cluster.models["org/qwen"] = MODEL
    assert "last replica" not in ctl("scale", "org/qwen", "2").stderr


def test_a_most_below_what_is_wanted_is_refused_with_its_path(cluster: CatalogApi) -> None:
    answer = ctl("scale", "org/qwen", "5", "--max", "2")
    assert isinstance(answer.exception, Unreadable)
    assert "profiles[0].max_replicas: 2 is not between 5 and 10000" in answer.stderr
    assert cluster.put_ == []


def test_what_is_so_already_is_not_put(cluster: CatalogApi) -> None:
    answer = ctl("scale", "org/qwen", "1")
    assert answer.exit_code == 0
    assert answer.stderr == "org/qwen: is so already, as version 7; nothing was changed\n"
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
    cluster.meanwhile = msgspec.structs.replace(MODEL, generation=3)
    answer = ctl("scale", "org/qwen", "2")
    assert isinstance(answer.exception, Conflict)
    assert "org/qwen: meanwhile ada changed generation: 0 -> 3" in answer.stderr


def test_what_replaces_a_model_carries_the_version_that_was_read(cluster: CatalogApi) -> None:
    text = "name: org/qwen\nprofiles: [{engine: simulated}]\n"
    answer = ctl("add", "-", input=text)
    assert answer.stderr.startswith("org/qwen: in place of version 7, changed by ada ")
    assert ctl("add", "-", input=text.replace("org/qwen", "new")).exit_code == 0
    assert [version for _, version in cluster.put_] == [7, 0]
    refused = ctl("add", "-", "--if-version", "6", input=text)
    assert isinstance(refused.exception, Conflict)
    assert "version 7, changed by ada " in refused.exception.message


def test_resources_sets_both(cluster: CatalogApi) -> None:
    answer = ctl("resources", "org/qwen", "--memory", "8", "--cores", "4")
    assert answer.exit_code == 0, answer.output
    assert (cluster.profile.min_memory_gb, cluster.profile.cpu_cores) == (8, 4)


CHANGES = (
    ("scale", "org/qwen", "0"),
    ("scale", "org/qwen", "2"),
    ("resources", "org/qwen", "--memory", "8"),
    ("restart", "org/qwen"),
    ("add", "-"),
)
"""Whatever puts a model into the catalog, each with a change."""
FILE = "name: org/qwen\nprofiles: [{engine: simulated, context: 9}]\n"
WHY = "the catalog changed since it was started"
ENDS = f"org/qwen: 1 replica will end (3 replies in flight): qwen-1 on n1: {WHY}"


@pytest.mark.parametrize("argv", CHANGES, ids=lambda argv: argv[0])
def test_what_would_end_is_said_before_and_asked_about(
    cluster: CatalogApi, argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.ends = {"qwen-1": WHY}
    answer = ctl(*argv, "--dry-run", input=FILE)
    assert answer.exit_code == 0, answer.output
    assert ENDS in answer.stderr
    assert "would become version 8; nothing was changed" in answer.stderr
    asked = ctl(*argv, input=FILE)
    assert isinstance(asked.exception, Usage), "nobody is there to ask"
    assert "add --yes" in (asked.exception.hint or "")
    assert ENDS in asked.stderr
    assert cluster.put_ == []
    done = ctl(*argv, "--yes", input=FILE)
    assert done.exit_code == 0, done.output
    assert "org/qwen is version 8" in done.stdout
    assert len(cluster.put_) == 1


@pytest.mark.parametrize("argv", CHANGES, ids=lambda argv: argv[0])
def test_what_ends_nothing_is_done_without_asking(
    cluster: CatalogApi, argv: tuple[str, ...]
) -> None:
    assert ctl(*argv, input=FILE).exit_code == 0
    assert len(cluster.put_) == 1


def test_replicas_of_other_models_that_give_way_are_named_with_theirs(cluster: CatalogApi) -> None:
    cluster.replicas += [
        {**cluster.replicas[0], "id": "small-1", "model": "small", "in_flight": 0},
        {**cluster.replicas[0], "id": "small-2", "model": "small", "in_flight": None},
    ]
    words = "its priority is 0, and org/qwen (priority 5) can't be placed otherwise"
    cluster.ends = {"small-1": words, "gone-1": "is not there any more"}
    lines = ctl("scale", "org/qwen", "2", "--dry-run").stderr.splitlines()
    told = f"small: 1 replica will end (nothing in flight): small-1 on n1: {words}"
    assert told in lines
    assert not any("gone-1" in line for line in lines), "nothing of it runs"
    cluster.ends = {"small-1": words, "small-2": words}
    (line,) = [
        line
        for line in ctl("scale", "org/qwen", "2", "--dry-run").stderr.splitlines()
        if line.startswith("small")
    ]
    assert "2 replicas will end (how many replies are in flight is not known)" in line


def test_many_that_end_are_counted_after_the_first(cluster: CatalogApi) -> None:
    cluster.replicas = [{**cluster.replicas[0], "id": f"qwen-{n}"} for n in range(9)]
    words = ctl("rm", "org/qwen", "--dry-run").stderr
    assert "9 replicas will end (27 replies in flight): qwen-0 on n1, " in words
    assert "qwen-4 on n1 and 4 more; nothing was changed" in words


def test_a_model_goes_once_somebody_typed_its_name(cluster: CatalogApi) -> None:
    words = "org/qwen: it leaves the catalog; 1 replica will end (3 replies in flight)"
    assert words in ctl("rm", "org/qwen", "--dry-run").stderr
    assert isinstance(ctl("rm", "org/qwen").exception, Usage)
    assert cluster.deleted == []
    assert ctl("rm", "org/qwen", "--yes").exit_code == 0
    assert cluster.deleted == ["/models/org/qwen"]


def test_resources_alone_shows_what_is_reserved_and_used(cluster: CatalogApi) -> None:
    answer = ctl("resources", "org/qwen")
    assert answer.exit_code == 0, answer.output
    assert answer.stderr == "org/qwen (default): 4 GB and 2 cores a replica\n"
    head, row = answer.stdout.splitlines()
    assert head.split() == ["REPLICA", "NODE", "MEMORY", "RESERVED", "CORES", "RESERVED", "WARNING"]
    assert row.split(maxsplit=6)[:6] == ["qwen-1", "n1", "3.9", "GB", "4.0", "GB"]
    assert "uses nearly all of its memory, uses more cores than are reserved" in row


def test_one_core_is_one_core(cluster: CatalogApi) -> None:
    one = msgspec.structs.replace(MODEL.profiles[0], cpu_cores=1)
    cluster.models["org/qwen"] = msgspec.structs.replace(MODEL, profiles=(one,))
    assert ctl("resources", "org/qwen").stderr == "org/qwen (default): 4 GB and 1 core a replica\n"


def test_what_no_node_measured_shows_as_absent(cluster: CatalogApi) -> None:
    cluster.samples = []
    row = ctl("resources", "org/qwen").stdout.splitlines()[1]
    assert row.split() == ["qwen-1", "n1", "-", "4.0", "GB", "-", "2.0", "-"]


def test_restart_raises_the_generation(cluster: CatalogApi) -> None:
    answer = ctl("restart", "org/qwen", "--yes")
    assert answer.exit_code == 0, answer.output
    ((model, _),) = cluster.put_
    assert model == msgspec.structs.replace(MODEL, generation=1)


def test_what_ended_and_what_leaves_is_not_counted_among_what_goes(cluster: CatalogApi) -> None:
    for number, state in enumerate(("failed", "draining", "starting"), start=2):
        one = {"id": f"qwen-{number}", "model": "org/qwen", "state": state}
        cluster.replicas.append({**cluster.replicas[0], **one})
    assert "2 replicas will end" in ctl("rm", "org/qwen", "--dry-run").stderr
    cluster.ends = {f"qwen-{number}": "it goes" for number in range(1, 5)}
    assert "2 replicas will end" in ctl("restart", "org/qwen", "--dry-run").stderr


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


# -- files -----------------------------------------------------------------------------------

MISTAKES = """
name: "  x"
sorce: {kind: path, path: /x}
profiles:
  - engine: simlated
    gpus: two
    contxt: 5
    replicas: -1
  - name: default
"""


@pytest.mark.parametrize("command", ["add", "plan", "serve"])
def test_every_mistake_of_a_file_is_a_line_with_its_path(
    cluster: CatalogApi, command: str, tmp_path: Path
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(MISTAKES)
    answer = ctl(command, str(file))
    assert isinstance(answer.exception, Unreadable)
    assert answer.exception.message == f"{file}: 8 problems, nothing was changed"
    paths = [
        line.removeprefix(f"{file}: ").partition(": ")[0] for line in answer.stderr.splitlines()
    ]
    assert paths == [
        "sorce",
        "profiles[0].gpus",
        "profiles[0].contxt",
        "profiles[1].engine",
        "name",
        "profiles[0].engine",
        "profiles[0].replicas",
        "profiles[1].name",
    ]
    assert "did you mean 'source'?" in answer.stderr
    assert cluster.put_ == []


def test_a_new_model_is_added_and_the_same_again_is_left(cluster: CatalogApi) -> None:
    text = "name: new\nprofiles: [{engine: simulated}]\n"
    dry = ctl("add", "-", "--dry-run", input=text).stderr.splitlines()
    assert dry == ["new: starts 1 replica: n1 [CPU]", "new would be added; nothing was changed"]
    assert ctl("add", "-", "--if-version", "0", input=text).exit_code == 0
    ((model, version),) = cluster.put_
    assert (model.name, version) == ("new", 0)
    cluster.models["new"] = model
    assert "is so already, as version 7" in ctl("add", "-", input=text).stderr
    refused = ctl("add", "-", "--if-version", "3", input=text + "generation: 1\n")
    assert isinstance(refused.exception, Conflict)
    assert len(cluster.put_) == 1
