"""What the planner says a model needs, against what llama-server says that it allocated."""

import asyncio
import re
from pathlib import Path

import pytest

from llmgw.formats.gguf import read_gguf
from llmgw.formats.gguf_shape import shape_of
from llmgw.model.catalog import LLAMACPP, PathSource, Profile
from llmgw.model.shard import ShardSpec
from llmgw.plan.estimate import memory_need
from tests.agents import KEY, RealNode
from tests.real.conftest import Llama

pytestmark = pytest.mark.real

BUFFER = re.compile(r"(?P<what>model|output|KV|compute) buffer size =\s+(?P<mib>[\d.]+) MiB")
REPACKED = "CPU_REPACK"
"""A copy of some tensors in another order, which builds for some processors make."""

PROFILES = (
    Profile(engine=LLAMACPP, context=512, concurrency=1),
    Profile(engine=LLAMACPP, context=4096, concurrency=4),
    Profile(engine=LLAMACPP, context=2048, concurrency=2, arguments=("-b", "32", "-ub", "32")),
    Profile(
        engine=LLAMACPP, context=2048, concurrency=2, arguments=("-ctk", "q8_0", "-ctv", "q8_0")
    ),
)


def allocated(log: str) -> dict[str, float]:
    """Return the bytes of each kind of buffer, as the engine's own output names them."""
    found: dict[str, float] = {}
    for line in log.splitlines():
        match = BUFFER.search(line)
        if match is not None and REPACKED not in line:
            found[match["what"]] = found.get(match["what"], 0.0) + float(match["mib"]) * (1 << 20)
    return found


@pytest.mark.parametrize("profile", PROFILES, ids=lambda one: f"{one.context}x{one.concurrency}")
async def test_an_estimate_is_what_llama_server_allocated(
    llama: Llama, gemma: Path, tmp_path: Path, profile: Profile
) -> None:
    with gemma.open("rb") as data:
        need = memory_need(shape_of(read_gguf(data)), profile, None)
    node = RealNode(tmp_path / "state", llama.program, gemma)
    spec = ShardSpec(
        replica="demo-abc123",
        model="demo",
        profile="default",
        fingerprint="f",
        engine=LLAMACPP,
        source=PathSource(path=str(gemma)),
        context=profile.context,
        concurrency=profile.concurrency,
        arguments=profile.arguments,
        cpu_cores=2,
    )
    try:
        async with node.agent() as agent:
            await agent.start(spec, KEY)
            await asyncio.wait_for(node.until("ready"), 120)
        log = node.state / "shards" / "demo-abc123.0" / "engine.log"
        said = allocated(log.read_text())
    finally:
        await node.end_all()
    assert need.weights_bytes == pytest.approx(said["model"], rel=0.001)
    assert need.cache_bytes == pytest.approx(said["KV"], rel=0.001)
    assert need.compute_bytes == pytest.approx(said["compute"] + said["output"], rel=0.25)
    total = sum(said.values())
    assert need.total_bytes == pytest.approx(total, rel=0.05)
