"""`python -m tests.fuzz.gateway`: see the package."""

import argparse
import asyncio
import sys

from tests.fuzz.gateway.check import complaint, read
from tests.fuzz.gateway.mutate import example, parts


def main() -> int:
    """Run what was asked for; return 1 when the gateway failed."""
    asked = _arguments()
    if asked.seed is not None:
        return _show(asked.seed)
    found = asyncio.run(_failures(asked.begin, asked.examples))
    for seed, words in found[: asked.show]:
        print(f"    {seed}: {words}")
    print(f"{asked.examples} examples, {len(found)} failed")
    return 1 if found else 0


async def _failures(begin: int, examples: int) -> list[tuple[int, str]]:
    found = []
    for seed in range(begin, begin + examples):
        words = await complaint(parts(example(seed), seed))
        if words is not None:
            found.append((seed, words))
    return found


def _show(seed: int) -> int:
    pieces = parts(example(seed), seed)
    for piece in pieces:
        print(piece)
    print(f"h11 reads {read(b''.join(pieces))}")
    words = asyncio.run(complaint(pieces))
    print(f"-- {words or 'nothing is wrong'}")
    return 0 if words is None else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.gateway", description=__doc__)
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--begin", type=int, default=0, help="the first seed")
    parser.add_argument("--show", type=int, default=10, help="failures shown")
    parser.add_argument("--seed", type=int, help="show one example")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
