"""Commands that remove: they look before they ask, so that nobody confirms what is not there."""

import pytest
from typer.testing import CliRunner

from llmgw.base.errors import NotFound
from llmgw.cli import session
from llmgw.cli.main import app

KEY = {"id": "k1", "sha256": "ab" * 32, "name": "batch jobs", "created": 0.0}
TOKEN = {"id": "t1", "name": "ada", "role": "admin", "created": 0.0}


class Cluster:
    """A control plane with one key and one token; it notes what is deleted."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    def get(self, path: str, query: object = None) -> object:
        lists: dict[str, object] = {"/keys": [KEY], "/tokens": [TOKEN], "/replicas": []}
        if path in lists:
            return lists[path]
        raise NotFound(f"nothing at {path}")

    def delete(self, path: str) -> None:
        if path.endswith("/nope"):
            raise NotFound(f"nothing at {path}")
        self.deleted.append(path)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    there = Cluster()
    monkeypatch.setattr(session, "connect", lambda: there)
    return there


@pytest.mark.parametrize("option", [(), ("--dry-run",), ("--yes",)])
@pytest.mark.parametrize("what", ["key", "token", "model", "node"])
def test_what_is_not_there_is_not_found_before_anything_is_asked(
    cluster: Cluster, what: str, option: tuple[str, ...]
) -> None:
    answer = CliRunner().invoke(app, ["ctl", what, "rm", "nope", *option], input="nope\n")
    assert isinstance(answer.exception, NotFound)
    assert answer.output == ""
    assert cluster.deleted == []


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("key", "rm", "k1"), "k1 (batch jobs): requests with it will be refused"),
        (("token", "rm", "t1"), "t1 (ada): commands with it will be refused"),
    ],
)
def test_what_is_there_is_named_and_a_dry_run_leaves_it(
    cluster: Cluster, argv: tuple[str, ...], words: str
) -> None:
    answer = CliRunner().invoke(app, ["ctl", *argv, "--dry-run"])
    assert answer.exit_code == 0
    assert answer.stderr == f"{words}; nothing was changed\n"
    assert cluster.deleted == []
    answer = CliRunner().invoke(app, ["ctl", *argv, "--yes"])
    assert answer.exit_code == 0
    assert cluster.deleted == [f"/{argv[0]}s/{argv[2]}"]
