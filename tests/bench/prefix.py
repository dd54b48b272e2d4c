"""What it costs and brings to choose by prompt: hashing, table, and ways for workers to agree.

    python -m tests.bench.prefix [--requests 20000] [--json]

The model is `tests/fakes/replica_model.py`; costs and memory are this process's own.
"""

import argparse
import json
import random
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha1
from pathlib import Path

from llmgw.gateway import prefixes
from llmgw.gateway.route.choice import Prompt, choose
from llmgw.gateway.route.prefix import BLOCK, LEVELS, leading_hashes, mark_of
from tests.fakes.replica_model import (
    MAPPED,
    WAYS,
    Outcome,
    Replica,
    conversations,
    random_prompts,
    run,
    shared_prompts,
)

WORKLOADS: dict[str, Callable[[int], Iterator[bytes]]] = {
    "shared beginnings": shared_prompts,
    "conversations": conversations,
    "nothing shared": random_prompts,
}


def micros(act: Callable[[], object], times: int = 2000) -> float:
    """Return the least CPU time of one call, in µs, of five series."""
    best = float("inf")
    for _ in range(5):
        begin = time.process_time()
        for _ in range(times):
            act()
        best = min(best, time.process_time() - begin)
    return best / times * 1e6


def pieces(text: bytes) -> list[bytes]:
    ends = [BLOCK * level for level in LEVELS if BLOCK * level <= len(text)]
    return [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def by_sha1(text: bytes) -> list[int]:
    state, found = sha1(usedforsecurity=False), []
    for piece in pieces(text):
        state.update(piece)
        found.append(int.from_bytes(state.digest()[:8], "little"))
    return found


def by_crc32(text: bytes) -> list[int]:
    last, found = 0, []
    for piece in pieces(text):
        last = zlib.crc32(piece, last)
        found.append(last)
    return found


def every_block(text: bytes) -> list[int]:
    last, found = 0, []
    for at in range(0, min(len(text), 128 * BLOCK) - BLOCK + 1, BLOCK):
        last = hash((last, text[at : at + BLOCK]))
        found.append(last)
    return found


def costs() -> list[dict[str, object]]:
    """Return µs of each step, by size of the prompt."""
    rows: list[dict[str, object]] = []
    for size in (600, 8 << 10, 64 << 10):
        text = random.Random(1).randbytes(size)
        table, places = prefixes.private(), [Replica(number) for number in range(4)]
        hashes = leading_hashes(text, 0)
        prompt, below = Prompt(hashes), random.Random(1).randrange
        table.learn(hashes, places[0].mark)
        choosing = partial(choose, places, [2, 1, 2, 2])
        steps: dict[str, Callable[[], object]] = {
            "hash": partial(leading_hashes, text, 0),
            "sha1": partial(by_sha1, text),
            "crc32": partial(by_crc32, text),
            "every block": partial(every_block, text),
            "learn": partial(table.learn, hashes, mark_of(0)),
            "choose": partial(choosing, prompt, table, below),
            "choose by load": partial(choosing, Prompt([]), table, below),
        }
        rows.append({"bytes": size, **{name: round(micros(act), 2) for name, act in steps.items()}})
    return rows


def resident() -> int:
    """Return this process's resident memory, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def memory(prompts: int = 200_000) -> list[dict[str, int]]:
    """Return resident KiB and hashes held after each 50,000 random prompts of 2 kB."""
    table, rng, rows = prefixes.private(), random.Random(2), []
    before = resident()
    for number in range(1, prompts + 1):
        table.learn(leading_hashes(rng.randbytes(2048), 0), mark_of(number % 4))
        if number % 50_000 == 0:
            grown = (resident() - before) // 1024
            rows.append({"prompts": number, "KiB": grown, "hashes": table.size()})
    return rows


def row(outcome: Outcome, **more: object) -> dict[str, object]:
    reasons = {name: round(n / len(outcome.queues), 4) for name, n in outcome.reasons.items()}
    return {
        **more,
        "hit share": round(outcome.share, 4),
        "p50 queue": outcome.queue(50),
        "p99 queue": outcome.queue(99),
        "hashes told": outcome.told,
        "reasons": reasons,
    }


def agreement(requests: int) -> list[dict[str, object]]:
    """Return what each way for workers to agree brings, on each workload."""
    rows = []
    for name, prompts in WORKLOADS.items():
        load = run(prompts(5), requests=requests, by_load=True)
        rows.append(row(load, workload=name, way="by load", workers=1))
        one = run(prompts(5), requests=requests)
        rows.append(row(one, workload=name, way=MAPPED, workers=1))
        for workers in (2, 4):
            for way in WAYS:
                seen = run(prompts(5), requests=requests, workers=workers, way=way)
                rows.append(row(seen, workload=name, way=way, workers=workers))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, Sequence[Mapping[str, object]]] = {
        "costs": costs(),
        "memory": memory(),
        "agreement": agreement(options.requests),
    }
    if options.json:
        print(json.dumps(found))
        return
    for title, rows in found.items():
        print(f"\n{title}")
        for one in rows:
            print("  " + "  ".join(f"{name} {value}" for name, value in one.items()))


if __name__ == "__main__":
    main()
