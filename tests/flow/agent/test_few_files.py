"""With the limit of open files reached tools and helpers say so; afterwards all is well again."""

import asyncio
import os
import resource
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from llmgw.base.errors import LlmgwError
from llmgw.base.limits import system_words
from llmgw.base.system import SystemProcesses
from llmgw_agent.host.helper import HelperProcess
from tests.flow.agent.helper_program import Did, Do

ENVIRON = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def handles() -> list[str]:
    return [entry.name for entry in Path("/proc/self/fd").iterdir()]


@contextmanager
def files_left(count: int) -> Iterator[int]:
    """Leave this process so many files to open; return its limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(map(int, handles())) + 40
    held: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(count):
            os.close(held.pop())
        yield limit
    finally:
        for handle in held:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def words_of(work: Callable[[], Awaitable[object]]) -> str | None:
    """Return why something failed, as a probe tells it."""
    try:
        await work()
    except OSError as error:
        return system_words(error)
    except LlmgwError as error:
        return error.message
    return None


@pytest.mark.parametrize("what", ["tool", "helper"])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_too_few_files_are_told_with_their_limit_and_are_no_lasting_harm(loop, what):
    processes = SystemProcesses()

    async def run() -> None:
        await processes.run(["true"], timeout=20)

    async def ask() -> None:
        helper = HelperProcess(
            (sys.executable, "-m", "tests.flow.agent.helper_program"), environ=ENVIRON
        )
        try:
            await helper.ask(Do(what="say"), Did, silence=20)
        finally:
            await helper.close()

    async def scarce() -> set[int]:
        """Return with how many files left it went well."""
        work = run if what == "tool" else ask
        assert await words_of(work) is None
        well = set()
        for count in range(14):
            with files_left(count) as limit:
                words = await words_of(work)
            if words is None:
                well.add(count)
            else:
                assert f"too many open files (limit {limit})" in words
        before = len(handles())
        assert await words_of(work) is None
        assert len(handles()) <= before
        return well

    with asyncio.Runner(loop_factory=loop) as runner:
        well = runner.run(scarce())
    assert 0 not in well
    assert 13 in well
