"""A process that fills a small filesystem through a store: run inside a mount namespace by a test.

Run as `python filler.py DIRECTORY`; prints one JSON line of what it saw.
"""

import asyncio
import json
import sys
from pathlib import Path

from llmgw.base.errors import Unreachable
from llmgw.store.sqlite import SqliteStore
from tests.flow.store import samples


async def fill(directory: Path) -> dict[str, object]:
    ballast = directory / "ballast"
    ballast.write_bytes(b"x" * 200_000)
    path = directory / "state" / "llmgw.db"
    store = SqliteStore(path, version="0.1.0")
    await store.open("filler")
    acknowledged, words = 0, [""]
    try:
        while True:
            model = samples.model(f"m{acknowledged:05}", arguments=("x" * 2000,))
            await store.put_model(model, expected=0, actor="ana", at=1.0)
            acknowledged += 1
    except Unreachable as error:
        words = [error.message, error.hint or ""]
    kept = len(await store.models())
    whole = await store.verify_audit()
    await store.close()
    ballast.unlink()
    again = SqliteStore(path, version="0.1.0")
    await again.open("filler")
    more = await again.put_model(samples.model("more"), expected=0, actor="ana", at=1.0)
    after = len(await again.models())
    await again.close()
    return {
        "acknowledged": acknowledged,
        "kept": kept,
        "audit": whole,
        "after": after,
        "more": more.version,
        "words": words,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(fill(Path(sys.argv[1])))))
