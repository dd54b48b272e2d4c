"""What keeping the limits of many keys costs: a gateway's parent, its workers, the leader.

    python -m tests.bench.quotas [--keys 10000] [--active 0 100 1000 10000] [--json]

One request a second of each active key, at one of two workers; the leader lends to two gateways,
of which the other is idle. CPU of this process alone, in ms for each second that goes by.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from llmgw.control.quotas import SETTLING, in_parts
from llmgw.control.quotas import Quotas as Leader
from llmgw.link.codec import encode
from llmgw.model.keys import Key, QuotaGrant
from llmgw.model.link import GatewayControl, GatewayMessage
from tests.fakes.quotas import Hand, Machine, key

SECONDS = 20
LOOKS = 2
"""A second, as a gateway looks."""
R = TypeVar("R")


class Costs:
    """CPU seconds by what they were spent for."""

    def __init__(self) -> None:
        self.spent = dict.fromkeys(("worker", "look", "report", "grant", "take", "lend"), 0.0)
        self.longest_kept = 0.0
        self.largest_message = 0

    def of(self, what: str, act: Callable[[], R]) -> R:
        begin = time.process_time()
        result = act()
        self.spent[what] += time.process_time() - begin
        return result

    def sent(self, message: GatewayMessage | GatewayControl) -> None:
        self.largest_message = max(self.largest_message, len(encode(message)))


class Room:
    """A gateway and the leader, with so many limited keys."""

    def __init__(self, keys: int, active: int) -> None:
        self.costs, clock = Costs(), Hand()
        limits = {"requests_per_minute": 600, "tokens_per_minute": 100_000, "concurrent": 8}
        self.keys = [
            key(f"k{number:011d}", tokens_per_day=10_000_000, **limits) for number in range(keys)
        ]
        self.book: dict[str, Key] = {one.id: one for one in self.keys}
        self.machine, self.leader = Machine(clock), Leader(clock)
        self.machine.keep(*self.keys)
        columns = self.machine.quotas.columns(tuple(self.keys))
        self.active = [columns[one.id] for one in self.keys[:active]]
        for gateway in ("gw", "idle"):
            self.leader.connected(gateway)
        self.machine.quotas.grant(QuotaGrant(gateways=2))
        clock.pass_(SETTLING + 1)

    def second(self) -> None:
        costs, quotas = self.costs, self.machine.quotas
        costs.of("worker", self._requests)
        for _ in range(LOOKS):
            self.machine.clock.pass_(1.0 / LOOKS)
            costs.of("look", quotas.look)
            report = costs.of("report", quotas.report)
            if report is not None:
                costs.sent(GatewayMessage(quotas=report))
                costs.of("take", partial(self.leader.take, report))
        begin = time.process_time()
        quotas.kept()
        costs.longest_kept = max(costs.longest_kept, time.process_time() - begin)
        for gateway, grant in costs.of("lend", lambda: self.leader.grants(self.book)).items():
            for part in in_parts(grant):
                costs.sent(GatewayControl(quotas=part))
                if gateway == "gw":
                    costs.of("grant", partial(quotas.grant, part))

    def _requests(self) -> None:
        for number, column in enumerate(self.active):
            charge = self.machine.workers[number % 2].admit(column, 10)
            charge.completion(50)
            charge.closed()


def measured(keys: int, active: int) -> dict[str, float]:
    """Return ms of CPU a second by what it was spent for, and what was the most at once."""
    room = Room(keys, active)
    for _ in range(SECONDS):
        room.second()
    costs = room.costs
    found = {name: round(spent / SECONDS * 1e3, 2) for name, spent in costs.spent.items()}
    return {
        "keys": keys,
        "active": active,
        **found,
        "longest_kept_ms": round(costs.longest_kept * 1e3, 1),
        "largest_message_kib": round(costs.largest_message / 1024, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--active", type=int, nargs="+", default=[0, 100, 1000, 10_000])
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = [measured(asked.keys, min(active, asked.keys)) for active in asked.active]
    if asked.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    main()
