"""What a real build says of itself decides whether it counts as installed on this machine."""

import asyncio
import os
import socket
import subprocess
from pathlib import Path

import msgspec
import pytest

from llmgw.base.places import Places
from llmgw.model.catalog import LLAMACPP
from llmgw.model.settings import LLAMACPP_DEFAULT
from llmgw.model.shard import Progress
from llmgw_agent.engines.install_side import Install, bring, installer
from llmgw_agent.engines.llamacpp import LlamaCpp
from llmgw_agent.engines.program import Program
from llmgw_agent.host.machine import Machine
from llmgw_agent.parse.build_features import read_features
from tests.real.conftest import Llama

pytestmark = pytest.mark.real

LIMIT = 300.0
BEST = LLAMACPP_DEFAULT.builds[0]


def engines() -> Path:
    cache = os.environ.get("LLMGW_TEST_CACHE")
    environ = {**os.environ, **({"XDG_CACHE_HOME": cache} if cache else {})}
    return Places.find("agent", environ=environ, root=False).engines


async def test_a_build_for_another_processor_is_found_out_and_fetched_once():
    here = Machine.here()
    lacks = here.lacks(BEST.needs)
    if lacks is None or here.refuses(BEST.architecture, BEST.glibc) is not None:
        pytest.skip("this machine runs the build, or can't start it at all")
    # As of a build of which nobody has said what it needs.
    request = Install(
        root=str(engines()), engine=LLAMACPP, build=msgspec.structs.replace(BEST, needs=())
    )
    async with asyncio.timeout(LIMIT):
        first = await bring(installer(engines()), request, lambda progress: None)
    assert (first.found, first.for_ever) == (None, True)
    assert first.words == f"llama.cpp {BEST.version} {lacks}"
    told: list[Progress] = []
    assert await bring(installer(engines()), request, told.append) == first
    assert told == []


def run(program: Program, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*program.start, *options],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={"LD_LIBRARY_PATH": ":".join(map(str, program.libraries))},
    )


@pytest.fixture(params=["llama", "xllamacpp"])
def engine(request: pytest.FixtureRequest) -> Llama:
    found: Llama = request.getfixturevalue(request.param)
    return found


def test_it_says_what_it_was_compiled_for_and_this_processor_has_it(engine: Llama):
    done = run(engine.program, "-m", "/nonexistent.gguf", "--port", "0", "-lv", "4")
    features = read_features(done.stdout + done.stderr)
    assert features
    assert Machine.here().lacks(features) is None
    cause = LlamaCpp().cause_of((done.stdout + done.stderr).splitlines(), done.returncode)
    assert cause is not None
    assert cause[0] == "bad_file"


def test_a_port_that_is_taken_is_told(engine: Llama):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run(engine.program, "-m", str(engine.model), "--host", "127.0.0.1", "--port", port)
    cause = LlamaCpp().cause_of((done.stdout + done.stderr).splitlines(), done.returncode)
    assert cause is not None, done.stderr
    assert (cause[0], done.returncode) == ("port_taken", 1)


def test_it_lists_the_options_that_a_shard_is_started_with(engine: Llama):
    options = LlamaCpp().read_options(run(engine.program, "--help").stdout)
    assert options is not None
    used = {"-m", "-np", "-c", "-t", "-tb", "--host", "--port", "--alias", "-lv", "--metrics"}
    assert used | {"-ngl"} <= options
