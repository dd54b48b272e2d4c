"""A gateway's parent and workers as far as keys' limits go, in one process, on a clock by hand."""

import os

from llmgw.gateway.admission.quota import Quota
from llmgw.gateway.key_cells import KeyCells
from llmgw.gateway.mapped import create
from llmgw.gateway.quotas import Quotas
from llmgw.gateway.refusals import Refusal
from llmgw.model.keys import Key
from tests.fakes.clock import FakeClock

WORKERS = 2


def key(key_id: str = "k", **limits: int | None) -> Key:
    return Key(id=key_id, sha256="00", name=key_id, created=1.0, **limits)  # type: ignore[arg-type]


class Hand(FakeClock):
    """A clock that is moved without a loop."""

    def pass_(self, seconds: float) -> None:
        self._elapsed += seconds


class Machine:
    """A parent and its workers."""

    def __init__(self, clock: Hand | None = None, gateway: str = "gw") -> None:
        self.clock = clock or Hand()
        fd = create(WORKERS)
        self.cells = [KeyCells.attach(fd, row) for row in range(WORKERS)]
        self.quotas = Quotas(KeyCells.attach(fd, 0), gateway, self.clock)
        os.close(fd)
        self.workers = [Quota(cells, self.clock.monotonic) for cells in self.cells]
        self.keys: dict[str, Key] = {}

    def keep(self, *keys: Key) -> None:
        self.keys = {one.id: one for one in keys}
        self.quotas.keep(self.keys)

    def column(self, key_id: str = "k") -> int:
        return self.quotas.columns(tuple(self.keys.values()))[key_id]

    def pass_(self, seconds: float) -> None:
        """Let time go by, with the parent's looks."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() + 0.5 <= end:
            self.clock.pass_(0.5)
            self.quotas.look()
        self.clock.pass_(max(0.0, end - self.clock.monotonic()))
        self.quotas.look()

    def ask(self, times: int, worker: int = 0, key_id: str = "k") -> int:
        """Ask so many times; return how many were admitted, each over at once."""
        admitted = 0
        for _ in range(times):
            if not self.workers[worker].reached(self.column(key_id)):
                self.workers[worker].admit(self.column(key_id), 0).closed()
                admitted += 1
        return admitted

    def refusal(self, worker: int = 0, key_id: str = "k") -> Refusal:
        return self.workers[worker].refusal(self.column(key_id), self.keys[key_id])
