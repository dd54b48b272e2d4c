"""Replicas that hold what they computed, and workers that choose between them, in a model.

Virtual time, no sockets: some connections ask one after the other, a replica computes what it does
not hold of a prompt, then produces tokens. The choice is the product's own.
"""

import heapq
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from llmgw.gateway import prefixes
from llmgw.gateway.route.choice import UNKNOWN, Prompt, choose
from llmgw.gateway.route.prefix import BLOCK, PrefixTable, leading_hashes, mark_of

HELD = 800
"""Blocks that a replica holds."""
SLOTS = 16
"""Requests that it serves at once."""
A_BLOCK = 0.01
"""Seconds for which it computes one."""
TOKENS = 0.8
"""Seconds that a reply takes on average, beside."""
THINKS = 0.2
"""Seconds between a reply and the connection's next request, on average."""
BATCH = 0.1
"""Seconds between two tellings, where workers tell each other what they learned."""


@dataclass(eq=False)
class Replica:
    number: int
    strained: bool = False
    held: OrderedDict[int, None] = field(default_factory=OrderedDict)
    in_flight: int = 0
    running: int = 0
    waiting: "deque[tuple[int, float, float]]" = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.mark = mark_of(self.number)

    def take(self, blocks: Sequence[int]) -> int:
        """Return how many leading blocks it held; from now on it holds all."""
        found = 0
        for block in blocks:
            if block not in self.held:
                break
            found += 1
        for block in reversed(blocks):
            self.held[block] = None
            self.held.move_to_end(block)
        while len(self.held) > HELD:
            self.held.popitem(last=False)
        return found


@dataclass
class Outcome:
    """What came of a run. Shares of blocks, requests."""

    blocks: int = 0
    hits: int = 0
    queues: list[int] = field(default_factory=list)
    """What the chosen replica had in flight when each request came."""
    reasons: dict[str, int] = field(default_factory=dict)
    told: int = 0
    """Hashes that workers told each other."""

    @property
    def share(self) -> float:
        return self.hits / self.blocks

    def queue(self, percent: float) -> int:
        return sorted(self.queues)[int(len(self.queues) * percent / 100)]


def block_keys(prompt: bytes) -> list[int]:
    """Return what an engine knows the whole blocks of a prompt by."""
    keys, last = [], 0
    for at in range(0, len(prompt) - BLOCK + 1, BLOCK):
        last = hash((last, prompt[at : at + BLOCK]))
        keys.append(last)
    return keys


APART, TOLD, RENDEZVOUS, MAPPED = "apart", "told", "rendezvous", "mapped"
WAYS = (APART, TOLD, RENDEZVOUS, MAPPED)
"""How workers agree: not at all; by telling each other what they learned, in batches; by choosing
what none holds by a hash of its beginning; by one table for all.
"""


class Gateway:
    """Some workers and how they agree."""

    def __init__(self, workers: int, way: str, rng: random.Random, *, by_load: bool) -> None:
        one = prefixes.private()
        self.tables = [one if way == MAPPED else prefixes.private() for _ in range(workers)]
        self.way = way
        self.rng = rng
        self.by_load = by_load
        self.untold: list[tuple[PrefixTable, list[int], int]] = []
        self.told_at = 0.0
        self.told = 0

    def send(self, worker: int, prompt: bytes, replicas: list[Replica]) -> tuple[Replica, str]:
        hashes = [] if self.by_load else leading_hashes(prompt, 0)
        loads = [one.in_flight for one in replicas]
        table = self.tables[worker]
        one, reason = choose(replicas, loads, Prompt(hashes), table, self.rng.randrange)
        if self.way == RENDEZVOUS and reason == UNKNOWN:
            near = [one for one, load in zip(replicas, loads, strict=True) if load < min(loads) + 2]
            one = max(near, key=lambda place: hash((hashes[0], place.number)))
        table.learn(hashes, one.mark)
        self.untold.append((table, hashes, one.mark))
        return one, reason

    def look(self, now: float) -> None:
        """Tell all workers what one of them learned, when it is time to."""
        if self.way == TOLD and now - self.told_at >= BATCH:
            self.told_at = now
            for source, hashes, mark in self.untold:
                for table in self.tables:
                    if table is not source:
                        table.learn(hashes, mark)
                        self.told += len(hashes)
        if self.way != TOLD or self.told_at == now:
            self.untold.clear()


class Model:
    """Connections that ask, replicas that serve, in virtual time."""

    def __init__(
        self, asks: Iterator[bytes], requests: int, gateway: Gateway, replicas: int, seed: int
    ) -> None:
        self.asks = asks
        self.requests = requests
        self.gateway = gateway
        self.rng = random.Random(seed)
        self.places = [Replica(number) for number in range(replicas)]
        self.outcome = Outcome()
        self.events: list[tuple[float, int, Callable[[float], None]]] = []
        self.numbers = iter(range(1 << 60))

    def at(self, when: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self.events, (when, next(self.numbers), act))

    def run(self, connections: int) -> Outcome:
        for connection in range(connections):
            self.at(self.rng.random(), partial(self.ask, connection))
        while self.events:
            now, _, act = heapq.heappop(self.events)
            act(now)
        return self.outcome

    def ask(self, connection: int, now: float) -> None:
        outcome = self.outcome
        if len(outcome.queues) >= self.requests:
            return
        self.gateway.look(now)
        prompt = next(self.asks)
        workers = len(self.gateway.tables)
        place, reason = self.gateway.send(connection % workers, prompt, self.places)
        outcome.reasons[reason] = outcome.reasons.get(reason, 0) + 1
        outcome.queues.append(place.in_flight)
        place.in_flight += 1
        keys = block_keys(prompt)
        found = place.take(keys)
        outcome.blocks += len(keys)
        outcome.hits += found
        takes = (len(keys) - found) * A_BLOCK + self.rng.expovariate(1 / TOKENS)
        place.waiting.append((connection, takes, self.rng.expovariate(1 / THINKS)))
        self.begin(place, now)

    def begin(self, place: Replica, now: float) -> None:
        while place.waiting and place.running < SLOTS:
            connection, takes, thinks = place.waiting.popleft()
            place.running += 1
            self.at(now + takes, partial(self.end, place, connection, thinks))

    def end(self, place: Replica, connection: int, thinks: float, now: float) -> None:
        place.running -= 1
        place.in_flight -= 1
        self.at(now + thinks, partial(self.ask, connection))
        self.begin(place, now)


def run(
    asks: Iterator[bytes],
    *,
    requests: int,
    workers: int = 1,
    connections: int = 64,
    replicas: int = 4,
    way: str = MAPPED,
    by_load: bool = False,
    seed: int = 1,
) -> Outcome:
    """Let connections ask until so many requests were sent; return what came of it.

    Args:
        asks: the prompts.
        requests: how many of them.
        workers: a connection is one worker's.
        connections: how many there are.
        replicas: how many there are.
        way: how workers agree.
        by_load: choose by load alone.
        seed: of all that is random here but the prompts.
    """
    gateway = Gateway(workers, way, random.Random(seed), by_load=by_load)
    outcome = Model(asks, requests, gateway, replicas, seed).run(connections)
    outcome.told = gateway.told
    return outcome


def shared_prompts(seed: int, *, groups: int = 60, prefix: int = 24) -> Iterator[bytes]:
    """Yield prompts of which each begins like many others, as with system prompts and documents."""
    rng = random.Random(seed)
    beginnings = [rng.randbytes(prefix * BLOCK) for _ in range(groups)]
    weights = [1 / (1 + number) for number in range(groups)]
    while True:
        yield rng.choices(beginnings, weights)[0] + rng.randbytes(rng.randrange(8) * BLOCK + 40)


def conversations(seed: int, *, talks: int = 64, turns: int = 8) -> Iterator[bytes]:
    """Yield the growing prompts of many conversations that begin with one of few system prompts."""
    rng = random.Random(seed)
    systems = [rng.randbytes(6 * BLOCK) for _ in range(3)]
    live = [rng.choice(systems) for _ in range(talks)]
    lengths = [rng.randrange(turns) for _ in range(talks)]
    while True:
        which = rng.randrange(talks)
        live[which] += rng.randbytes(rng.randrange(1, 5) * BLOCK)
        lengths[which] += 1
        yield live[which]
        if lengths[which] >= turns:
            live[which], lengths[which] = rng.choice(systems), 0


def random_prompts(seed: int, size: int = 2048) -> Iterator[bytes]:
    """Yield prompts that have nothing in common."""
    rng = random.Random(seed)
    while True:
        yield rng.randbytes(size)
