"""`ctl logs --follow`: what comes is printed as it comes, and what was too fast is said."""

import json
from collections.abc import AsyncIterator
from typing import Any, Self

import pytest
from typer.testing import CliRunner

from llmgw.base.errors import Unreachable
from llmgw.cli import session
from llmgw.cli.main import app
from llmgw.client.interface import LogBatch


class Followed:
    """A client whose log goes on for a while and breaks then."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None, int]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def follow_logs(
        self, node: str, source: str | None, lines: int
    ) -> AsyncIterator[LogBatch]:
        self.asked.append((node, source, lines))
        yield LogBatch(lines=("old",), dropped=0)
        yield LogBatch(lines=("new \x1b[2J",), dropped=7)
        raise Unreachable("the stream of gpu-01 ended")


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Followed:
    client = Followed()
    monkeypatch.setattr(session, "connect_for_long", lambda: client)
    return client


def followed(*argv: str) -> Any:
    result = CliRunner().invoke(app, ["ctl", "logs", "gpu-01", "--follow", *argv])
    assert isinstance(result.exception, Unreachable)
    return result


def test_lines_are_printed_as_they_come_until_the_log_ends(client: Followed) -> None:
    result = followed("--source", "tiny-abc123/0", "-n", "5")
    assert client.asked == [("gpu-01", "tiny-abc123/0", 5)]
    assert result.stdout.splitlines()[0] == "old"
    assert "new" in result.stdout
    assert "\x1b" not in result.stdout
    assert "7 lines came too fast to follow" in result.stderr


def test_with_json_each_batch_is_a_line(client: Followed) -> None:
    lines = [json.loads(line) for line in followed("-o", "json").stdout.splitlines()]
    assert [line["lines"][0][:3] for line in lines] == ["old", "new"]
    assert [line["dropped"] for line in lines] == [0, 7]
