"""A small file through its helper process: whole or not at all, and its owner's alone."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from llmgw.base.errors import LlmgwError, NotFound, Unreadable
from llmgw_agent.host.helper import Helper
from llmgw_agent.host.small_file import HELPER, MOST, FileText, ReadFile, WriteFile, Written
from llmgw_agent.host.world import helpers


@pytest.fixture
async def helper() -> AsyncIterator[Helper]:
    helper = helpers(HELPER, dict(os.environ))()
    yield helper
    await helper.close()


async def text_of(helper: Helper, path: Path) -> str:
    return (await helper.ask(ReadFile(path=str(path)), FileText, silence=20.0)).text


async def test_what_was_written_is_read_and_is_its_owners_alone(helper: Helper, tmp_path: Path):
    path = tmp_path / "state" / "known.json"
    for text in ("one", "ähm"):
        await helper.ask(WriteFile(path=str(path), text=text), Written, silence=20.0)
        assert await text_of(helper, path) == text
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["known.json"]


async def test_what_is_not_there_too_large_or_no_file_is_refused(helper: Helper, tmp_path: Path):
    with pytest.raises(NotFound):
        await text_of(helper, tmp_path / "none")
    (tmp_path / "large").write_bytes(b"x" * (MOST + 1))
    with pytest.raises(Unreadable, match="more than 4 MiB"):
        await text_of(helper, tmp_path / "large")
    with pytest.raises(LlmgwError, match="directory"):
        await text_of(helper, tmp_path)
