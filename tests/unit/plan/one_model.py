"""One model whose load, replicas and time a test sets, for tests of scaling."""

from typing import Any

from llmgw.model.catalog import CatalogEntry, Model, Profile
from llmgw.model.replica import Replica
from llmgw.model.settings import Settings
from llmgw.plan.records import Demand, Desired, Load, Observed
from llmgw.plan.scaling import Key, Scale, scale

KEY = ("qwen", "default")


class One:
    """One model, its replicas, what they do, and the time."""

    def __init__(self, *, changed: float = 0.0, **profile: Any) -> None:
        self.profile = Profile(engine="simulated", **profile)
        self.changed = changed
        self.now = 1000.0
        self.replicas = 0
        self.replica_state = "ready"
        self.in_flight: int | None = 0
        self.waiting = 0
        self.queued = 0
        self.tokens: float | None = None
        self.idle_for: float | None = None
        self.state: dict[Key, Scale] = {}

    def wanted(self, after: float = 0.0) -> int:
        """Let time pass, and return how many are wanted then; they are there at once."""
        self.now += after
        model = Model(name="qwen", profiles=(self.profile,))
        entry = CatalogEntry(model=model, version=1, changed=self.changed, changed_by="ana")
        ids = [f"r{number}" for number in range(self.replicas)]
        each, rest = divmod(self.in_flight or 0, max(1, self.replicas))
        observed = Observed(
            nodes=(),
            replicas=tuple(
                Replica(id=one, model="qwen", profile="default", state=self.replica_state)
                for one in ids
            ),
            loads=tuple(
                Load(
                    replica=one,
                    in_flight=None if self.in_flight is None else each + (rest if not n else 0),
                    waiting=self.waiting if not n else 0,
                )
                for n, one in enumerate(ids)
            ),
            demands=(
                Demand(
                    model="qwen",
                    queued=self.queued,
                    tokens_per_second=self.tokens,
                    idle_for=self.idle_for,
                ),
            ),
        )
        desired = Desired(models=(entry,), settings=Settings())
        self.state = scale(self.state, desired, observed, self.now, self.now)
        return self.state[KEY].wanted if KEY in self.state else -1

    def settle(self, after: float = 0.0) -> int:
        self.replicas = self.wanted(after)
        return self.replicas
