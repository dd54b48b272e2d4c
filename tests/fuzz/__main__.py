"""`python -m tests.fuzz`: see the package."""

import argparse
import sys
from collections.abc import Iterator

from llmgw.base.errors import Unreadable
from tests.fuzz.check import MS_PER_KB, complaint, slowness
from tests.fuzz.corpus import by_name, recordings
from tests.fuzz.mutate import mutated
from tests.fuzz.runs import EACH, LENGTHS, edges, run_complaint


def main() -> int:
    """Run what was asked for, and runs of one character; return 1 when a reader failed."""
    asked = _arguments()
    names = asked.tool or list(by_name())
    if unknown := [name for name in names if name not in by_name()]:
        sys.exit(f"no reader for {', '.join(unknown)}; there are: {', '.join(by_name())}")
    if asked.seed is not None:
        return _show(names[0], asked.file or next(iter(recordings(names[0]))), asked.seed)
    failed = 0
    for name in names:
        found = list(_failures(name, asked.examples, asked.begin))
        failed += bool(found)
        worst = max(slowness(name, file) for file in recordings(name))
        slow = " TOO SLOW" if worst > MS_PER_KB else ""
        failed += bool(slow)
        runs = list(_runs(name))
        failed += bool(runs)
        print(f"{name:<22} {asked.examples} examples, {len(found)} failed, {len(runs)} runs, "
              f"{worst:.2f} ms a KB at worst{slow}", flush=True)  # fmt: skip
        for file, seed, words in (*found[: asked.show], *runs[: asked.show]):
            print(f"    ({name!r}, {file!r}, {seed}): {words}", flush=True)
    return 1 if failed else 0


def _failures(name: str, examples: int, begin: int) -> Iterator[tuple[str, int, str]]:
    files = list(recordings(name))
    for seed in range(begin, begin + examples):
        file = files[seed % len(files)]
        words = complaint(name, file, seed)
        if words is not None:
            yield file, seed, words


def _runs(name: str) -> Iterator[tuple[str, int, str]]:
    """Yield the runs of one character that a reader failed on: file, number, words."""
    for length in LENGTHS:
        for file in edges(name):
            for number in range(EACH):
                words = run_complaint(name, file, number, length)
                if words is not None:
                    yield file, number, words


def _show(name: str, file: str, seed: int) -> int:
    texts = recordings(name)
    text = mutated(tuple(texts.values()), texts[file], seed)
    print(text)
    try:
        print(by_name()[name].read(text))
    except Unreadable as error:
        print(f"Unreadable: {error.message}")
    words = complaint(name, file, seed)
    print(f"-- {words or 'nothing is wrong'}")
    return 0 if words is None else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("tool", nargs="*", help="readers; all unless named")
    parser.add_argument("--examples", type=int, default=200, help="for each reader")
    parser.add_argument("--begin", type=int, default=0, help="the first seed")
    parser.add_argument("--show", type=int, default=5, help="failures shown of each reader")
    parser.add_argument("--seed", type=int, help="show one example")
    parser.add_argument("--file", help="of that example")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
