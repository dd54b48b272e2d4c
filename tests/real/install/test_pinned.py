"""The pinned llama.cpp builds and the demo's model, from the package index of this machine.

About 320 MB the first time; they are kept below LLMGW_TEST_CACHE, or this user's cache directory.
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llmgw.local.demo_model import GEMMA
from llmgw.model.settings import LLAMACPP_DEFAULT
from llmgw.model.weights import cache_name
from llmgw_agent.engines.install import directory_of, read_marker
from llmgw_agent.weights.cache import read_marker as read_set
from tests.agents import ROOT, python_path

pytestmark = pytest.mark.real

LIMIT = 300.0


def bring(what: str, **environ: str) -> dict[str, Any]:
    """Bring the engine or the model by the agent's own code; return what it says."""
    cache = os.environ.get("LLMGW_TEST_CACHE")
    places = {"XDG_CACHE_HOME": cache} if cache else {}
    done = subprocess.run(
        [sys.executable, "-m", "tests.real.bring", what],
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": python_path(), **places, **environ},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


@pytest.fixture(scope="module", params=["engine", "xllamacpp"])
def engine(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return what the default order brings here, and the library with the launcher."""
    return {"what": request.param, **bring(request.param)}


@pytest.fixture(scope="module")
def model() -> Path:
    return Path(bring("model")["path"])


def test_the_pinned_engine_runs_where_it_was_installed(engine):
    program = Path(engine["path"])
    done = subprocess.run(
        [*(engine["launched"] or [program]), "--version"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={"LD_LIBRARY_PATH": ":".join(engine["libraries"])},
    )
    assert done.returncode == 0
    assert "version:" in done.stdout + done.stderr
    place = next(parent for parent in program.parents if parent.name == "packages").parent
    marker = read_marker(place)
    assert marker is not None
    assert marker.build in LLAMACPP_DEFAULT.builds
    assert marker.build.version == engine["version"]


def test_what_was_installed_is_used_again_without_any_index(engine):
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple/", "PIP_CONFIG_FILE": "/dev/null"}
    assert {"what": engine["what"], **bring(engine["what"], **nowhere)} == engine


def test_the_demos_model_is_whole_and_is_gguf(model):
    with model.open("rb") as data:
        head = data.read(4)
        data.seek(0)
        sha256 = hashlib.file_digest(data, "sha256").hexdigest()
    assert head == b"GGUF"
    assert (sha256, model.stat().st_size) == (GEMMA.sha256, GEMMA.size_bytes)
    assert model.parent.name == cache_name(GEMMA)
    marker = read_set(model.parent)
    assert marker is not None
    assert marker.source == GEMMA


def test_the_model_is_used_again_without_any_index(model):
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple/", "PIP_CONFIG_FILE": "/dev/null"}
    assert bring("model", **nowhere) == {"path": str(model)}


def test_a_build_that_unpacks_to_something_else_has_another_place():
    root = Path("/engines")
    build = LLAMACPP_DEFAULT.builds[0]
    places = {directory_of(root, "llamacpp", one) for one in LLAMACPP_DEFAULT.builds}
    assert len(places) == len(LLAMACPP_DEFAULT.builds)
    said_better = msgspec.structs.replace(build, glibc=None, needs=())
    assert directory_of(root, "llamacpp", said_better) in places
