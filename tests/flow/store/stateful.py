"""A model of usage and settings that any store is compared with, step by step, over restarts."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from llmgw.base.errors import Conflict, Refused
from llmgw.model.settings import Settings
from llmgw.store.interface import Claim, Store
from tests.flow.store import samples
from tests.flow.store.conformance import Place

Worker = tuple[str, int]


class StoreAgainstModel(RuleBasedStateMachine):
    """Give `new_place` in a subclass."""

    def new_place(self) -> Place:
        """Return a fresh place for this run."""
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.place = self.new_place()
        self.term = 0
        self.version = 0
        self.settings = Settings()
        self.sequence: dict[Worker, int] = {}
        self.totals: dict[tuple[str, int, str], int] = {}
        self.hours: dict[tuple[float, str], int] = {}
        self.store = self.opened()

    def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run(call)

    def opened(self) -> Store:
        store = self.place.store()
        self.run(store.open("model"))
        self.term += 1
        lease = self.run(store.acquire_lease(Claim(server="model", boot="b"), ttl=5.0))
        assert lease.term == self.term
        return store

    @rule()
    def restart(self) -> None:
        self.run(self.store.close())
        self.store = self.opened()

    @rule(stopped=st.booleans(), interval=st.sampled_from([1.0, 2.0, 5.0]), behind=st.booleans())
    def put_settings(self, stopped: bool, interval: float, behind: bool) -> None:
        written = samples.settings(stopped=stopped, interval=interval)
        expected = self.version - 1 if behind else self.version
        call = self.store.put_settings(written, expected=expected, actor="ana", at=1.0)
        if behind:
            try:
                self.run(call)
            except Conflict:
                return
            raise AssertionError("an old version was taken")
        if written != self.settings:
            self.version, self.settings = self.version + 1, written
        assert self.run(call).version == self.version

    @rule(
        worker=st.tuples(st.sampled_from(["b1", "b2"]), st.integers(0, 1)),
        more=st.dictionaries(st.sampled_from(["k1", "k2", "k3"]), st.integers(0, 50)),
        hour=st.integers(0, 2),
        repeated=st.booleans(),
    )
    def report(self, worker: Worker, more: dict[str, int], hour: int, repeated: bool) -> None:
        sequence = self.sequence.get(worker, 0) + (0 if repeated else 1)
        report = samples.report(
            sequence,
            *(
                samples.totals(self.totals.get((*worker, key), 0) + count, key_id=key)
                for key, count in more.items()
            ),
            boot=worker[0],
            worker=worker[1],
        )
        known = worker in self.sequence
        taken = self.run(self.store.apply_usage(report, at=hour * 3600.0 + 7))
        assert taken is not (repeated and known)
        if not taken:
            return
        self.sequence[worker] = sequence
        for key, count in more.items():
            where = (*worker, key)
            self.totals[where] = self.totals.get(where, 0) + count
            if count:
                at = (hour * 3600.0, key)
                self.hours[at] = self.hours.get(at, 0) + count

    @precondition(lambda self: any(self.totals.values()))
    @rule(data=st.data())
    def fall(self, data: st.DataObject) -> None:
        boot, number, key = data.draw(
            st.sampled_from(sorted(k for k, v in self.totals.items() if v))
        )
        low = samples.totals(self.totals[boot, number, key] - 1, key_id=key)
        sequence = self.sequence[boot, number] + 1
        report = samples.report(sequence, low, boot=boot, worker=number)
        try:
            self.run(self.store.apply_usage(report, at=1.0))
        except Refused:
            return
        raise AssertionError("a total that fell was taken")

    @invariant()
    def usage_is_what_was_said(self) -> None:
        rows = self.run(self.store.usage(since=0.0, until=1e9))
        assert {(row.hour, row.key): row.requests for row in rows} == self.hours

    @invariant()
    def settings_are_the_newest(self) -> None:
        stored = self.run(self.store.settings())
        assert (stored.version, stored.settings) == (self.version, self.settings)

    def teardown(self) -> None:
        assert self.run(self.store.verify_audit()) is None
        self.run(self.store.close())
        self.loop.close()
