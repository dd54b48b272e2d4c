"""`python -m tests.bench.gateway`: see the package."""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.bench.gateway.goals import judged
from tests.bench.gateway.machine import CORES, Engines, program
from tests.bench.gateway.measures import GONE, LEFT, MEMORY, WORKS, Proxy, Work, cost, open_streams
from tests.bench.gateway.ours import FEATURES, Ours, missing
from tests.bench.gateway.peers import PEERS, install, start

SLOW = "litellm"
"""Measured with one size of body and few clients: a core of it carries no more."""
SLOW_WORKS = tuple(replace(work, clients=4, seconds=6.0) for work in (WORKS[0], WORKS[-2]))

Costs = dict[str, dict[str, list[dict[str, float]]]]


def main() -> int:
    """Measure what was asked for; return 1 when a goal is missed, 2 when nothing is measured."""
    asked = _arguments()
    if asked.install:
        install(asked.install)
        return 0
    with ExitStack() as stack:
        engines = Engines()
        stack.callback(engines.end)
        ours = stack.enter_context(_ours(engines))
        lacks = set(missing(ours, engines)) - set(asked.without)
        if lacks:
            print(f"not measured: of ours {', '.join(sorted(lacks))} did not work", file=sys.stderr)
            return 2
        proxies: list[Proxy] = [ours]
        for name in asked.only or PEERS:
            peer = None if name == "ours" else start(name, asked.peers, engines.ports)
            if peer is not None:
                stack.callback(peer.end)
                proxies.append(peer)
        costs = _passes(proxies, engines, asked)
        streams = {
            one.name: open_streams(one, engines)
            for one in proxies
            if one.name != SLOW and not asked.quick
        }
    return _report(_result(costs, streams, asked), as_json=asked.json)


@contextmanager
def _ours(engines: Engines) -> Iterator[Ours]:
    ours = Ours(engines.ports)
    try:
        yield ours
    finally:
        ours.end()


def _passes(proxies: list[Proxy], engines: Engines, asked: argparse.Namespace) -> Costs:
    """Return what each cost in each pass; in a pass the proxies take turns at each work."""
    costs: Costs = {one.name: {} for one in proxies}
    for number in range(asked.passes + 1):
        for one, work in _turns(proxies):
            seen = cost(one, engines, work, work.seconds if number else 0.5)
            if number:  # the first pass warms up
                costs[one.name].setdefault(work.name, []).append(seen)
                told = {name: round(value, 2) for name, value in seen.items()}
                print(f"pass {number}: {one.name}, {work.name}: {told}", file=sys.stderr)
    return costs


def _turns(proxies: list[Proxy]) -> Iterator[tuple[Proxy, Work]]:
    for number, work in enumerate(WORKS):
        yield from ((one, work) for one in proxies if one.name != SLOW)
        if number < len(SLOW_WORKS):
            yield from ((one, SLOW_WORKS[number]) for one in proxies if one.name == SLOW)


def _result(costs: Costs, streams: dict[str, Any], asked: argparse.Namespace) -> dict[str, Any]:
    figures: dict[str, dict[str, Any]] = {}
    for name, works in costs.items():
        figures[name] = {
            work: {
                field: round(statistics.median(one[field] for one in seen), 2) for field in seen[0]
            }
            for work, seen in works.items()
        }
        figures[name] |= streams.get(name, {})
    return {
        "passes": asked.passes,
        "cores": len(CORES),
        "compiled": len(program("engine")) == 1,
        "features": [one for one in FEATURES if one not in asked.without],
        "figures": figures,
        "goals": judged(figures),
    }


def _report(result: dict[str, Any], *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(result, indent=1))
    else:
        _print(result)
    return 1 if any(goal["met"] is False for goal in result["goals"]) else 0


def _print(result: dict[str, Any]) -> None:
    kind = "compiled" if result["compiled"] else "in Python: their share of a core is large"
    print(f"medians of {result['passes']} passes; engines and clients {kind}")
    print(f"ours with {', '.join(result['features'])}")
    names = list(result["figures"])
    width = max(map(len, names)) + 2
    ours = result["figures"]["ours"]
    for work in WORKS:
        print(f"\n{work.name}: CPU µs, ours : it, engines' µs, ms for a reply")
        for name in names:
            seen = result["figures"][name].get(work.name)
            if seen is not None:
                ratio = ours[work.name]["us"] / seen["us"]
                print(
                    f"  {name:<{width}}{seen['us']:9.1f}{ratio:7.2f}"
                    f"{seen['engines_us']:8.1f}{seen['median_ms']:9.2f}"
                )
    print(f"\n{'':<{width}}{MEMORY:>20}{GONE:>24}{LEFT:>14}")
    for name in names:
        seen = result["figures"][name]
        if MEMORY in seen:
            shown = "".join(
                f"{'-' if seen[field] is None else round(seen[field], 2):>{room}}"
                for field, room in ((MEMORY, 20), (GONE, 24), (LEFT, 14))
            )
            print(f"{name:<{width}}{shown}")
    print()
    for goal in result["goals"]:
        words = {True: "met", False: "MISSED", None: "not measured"}[goal["met"]]
        value = "-" if goal["value"] is None else f"{goal['value']:.2f}"
        print(f"{goal['goal']:<58}{value:>8}  {words}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.gateway", description=__doc__)
    parser.add_argument("--install", type=Path, metavar="DIR", help="install the peers, and end")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="where they are installed")
    parser.add_argument("--only", nargs="+", choices=[*PEERS, "ours"], help="beside ours")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--without", nargs="+", choices=FEATURES, default=[], help="may be off")
    parser.add_argument("--quick", action="store_true", help="no open streams")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
