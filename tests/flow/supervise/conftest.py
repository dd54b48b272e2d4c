"""An agent of its own for each test: real processes, real files, the simulated engine."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from llmgw_agent.engines.program import Program
from tests.agents import RealNode


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RealNode]:
    """Return a node; what it started is ended afterwards, whatever happened."""
    real = RealNode(
        state=tmp_path / "state",
        program=Program(path=Path(sys.executable)),
        weights=None,
    )
    try:
        yield real
    finally:
        await real.end_all()
