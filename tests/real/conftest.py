"""The real engine and a real model, brought by the agent's own code and kept for the next run.

LLMGW_TEST_LLAMA_SERVER and LLMGW_TEST_MODEL name a program and a model to use instead.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from llmgw_agent.engines.program import Program
from tests.agents import ROOT, python_path
from tests.fakes.tiny_gguf import write_tiny_model

BRING_LIMIT = 300.0


@dataclass(frozen=True, slots=True)
class Llama:
    """llama-server and a model of random numbers that it loads at once."""

    program: Program
    model: Path


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Llama:
    given = os.environ.get("LLMGW_TEST_LLAMA_SERVER")
    if given:
        path = Path(given).resolve()
        program = Program(path=path, libraries=(path.parent,))
    else:
        program = _program("engine")
    model = tmp_path_factory.mktemp("model") / "tiny.gguf"
    return Llama(program=program, model=write_tiny_model(model))


@pytest.fixture(scope="session")
def xllamacpp(llama: Llama) -> Llama:
    """Return the library under the agent's launcher, with the same model."""
    return Llama(program=_program("xllamacpp"), model=llama.model)


@pytest.fixture(scope="session")
def gemma() -> Path:
    """Return the demo's model: a small one that was trained."""
    given = os.environ.get("LLMGW_TEST_MODEL")
    return Path(given).resolve() if given else Path(_bring("model")["path"])


def _program(what: str) -> Program:
    brought = _bring(what)
    return Program(
        path=Path(brought["path"]),
        libraries=tuple(map(Path, brought["libraries"])),
        version=brought["version"],
        launched=tuple(brought["launched"]),
    )


def _bring(what: str) -> dict[str, Any]:
    """Run the agent's own code as a process of its own: it has helpers that outlive a loop."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.real.bring", what],
        check=False,
        capture_output=True,
        text=True,
        timeout=BRING_LIMIT,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": python_path()},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    read: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return read
