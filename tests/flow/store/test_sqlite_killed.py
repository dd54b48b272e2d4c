"""A control plane that is killed in the middle of writes loses nothing that was acknowledged."""

import subprocess
import sys
from pathlib import Path

from llmgw.store.interface import Claim
from llmgw.store.sqlite import SqliteStore

WRITER = Path(__file__).parent / "writer.py"
ROUNDS = 4


def write_and_kill(path: Path, begin: int, lines: int) -> tuple[int, int]:
    """Let a writer write, kill it in the middle, and return its term and the last number said."""
    writer = subprocess.Popen(
        [sys.executable, str(WRITER), str(path), str(begin)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    term = int(writer.stdout.readline().removeprefix("term "))
    said = [writer.stdout.readline() for _ in range(lines)]
    writer.kill()
    said += writer.stdout.readlines()
    assert writer.wait() == -9
    writer.stdout.close()
    return term, int([line for line in said if line.endswith("\n")][-1])


async def test_what_was_acknowledged_before_kill_9_is_there_after_each_of_several(tmp_path: Path):
    path = tmp_path / "state" / "llmgw.db"
    number, terms = 0, []
    for lines in range(20, 20 + ROUNDS * 7, 7):
        term, number = write_and_kill(path, number, lines)
        store = SqliteStore(path, version="0.1.0")
        await store.open("reader")
        lease = await store.acquire_lease(Claim(server="reader", boot="b"), ttl=5.0)
        terms += [term, lease.term]
        catalog = {entry.model.name: entry.model for entry in await store.models()}
        interval = (await store.settings()).settings.link.heartbeat_interval
        (row,) = await store.usage(since=0.0, until=1e9)
        # The write after the last one that was said may be there in part: model, settings, usage.
        assert catalog[f"m{number % 7}"].profiles[0].replicas == number
        assert round((interval - 1) * 1000) in {number, number + 1}
        assert row.requests in {number, number + 1}
        assert len(await store.model_history(f"m{number % 7}", limit=10_000)) == (
            sum(1 for n in range(1, number + 1) if n % 7 == number % 7)
        )
        assert await store.verify_audit() is None
        await store.close()
        number = max(number, row.requests)
    assert terms == list(range(1, 2 * ROUNDS + 1))
