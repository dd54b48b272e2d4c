"""A process that writes to a store for ever and says what was acknowledged: killed by a test.

Run as `python writer.py PATH BEGIN`: each line on stdout is a number n, printed after model
`m<n % 7>` was put with n replicas, settings were put with heartbeat interval 1 + n / 1000, and a
usage report with n requests was applied. The last line may be of a write whose number n was printed
in part; whoever reads keeps whole lines alone.
"""

import asyncio
import sys
from pathlib import Path

from llmgw.store.interface import Claim
from llmgw.store.sqlite import SqliteStore
from tests.flow.store import samples


async def write(path: Path, begin: int) -> None:
    store = SqliteStore(path, version="0.1.0")
    await store.open("writer")
    lease = await store.acquire_lease(Claim(server="writer", boot="b"), ttl=5.0)
    version = (await store.settings()).version
    print(f"term {lease.term}", flush=True)
    number = begin
    while True:
        number += 1
        model = samples.model(f"m{number % 7}", replicas=number)
        await store.put_model(model, expected=None, actor="writer", at=float(number))
        settings = samples.settings(interval=1 + number / 1000)
        stored = await store.put_settings(settings, expected=version, actor="writer", at=1.0)
        version = stored.version
        await store.apply_usage(samples.report(number, samples.totals(number)), at=1.0)
        print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2])))
