"""While it is not known what runs: what serves goes on, and what is missing is said (LINK-6a)."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from llmgw.control.tasks.reconcile import Reconcile
from llmgw.model.catalog import Scaling
from llmgw.plan.blind import RULE
from llmgw.plan.records import Desired, DrainReplica, MassLoss, Observed, Plan, StopReplica
from llmgw.plan.routes import routes
from tests.unit.plan.fleet import Fleet, model, node

LOST = ("n3", "n4", "n5")
EACH = Scaling(in_flight=1, window=0)
RESTS = Scaling(idle_stop=3600)


def blind(fleet: Fleet) -> Observed:
    lost = MassLoss(nodes=LOST, words="3 of 6 nodes were lost", blind=True)
    return msgspec.structs.replace(fleet.observed(), mass_loss=lost)


class Leader:
    """One that begins: scaling found nothing yet under its term."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.observed = blind(fleet)
        self.plan: Plan | None = None
        self.term = 7
        makes: Any = Reconcile
        self.told = makes(
            SimpleNamespace(
                losses=SimpleNamespace(look=lambda: None),
                observed=lambda: self.observed,
                drains=lambda: (),
            ),
            SimpleNamespace(apply=self._apply),
            SimpleNamespace(leading=True, term=self.term),
            None,
            clock=SimpleNamespace(monotonic=lambda: fleet.now, now=lambda: fleet.now),
            desired=self._desired,
            new_id=lambda name: f"{name}-new",
            decided=lambda plan, desired: None,
        )

    def _desired(self) -> Desired:
        return msgspec.structs.replace(self.fleet.desired(), wants=())

    async def _apply(self, plan: Plan) -> tuple[str, ...]:
        self.plan = plan
        return ()

    async def decides(self) -> Plan:
        await self.told.run()
        assert self.plan is not None
        return self.plan


def grown() -> Fleet:
    """Four of a model whose catalog says one, and one that a request started."""
    fleet = Fleet()
    fleet.join(*(node(f"n{k}", devices=2) for k in range(6)))
    fleet.serve(model("wide", gpus=1, max_replicas=4, scaling=EACH))
    fleet.serve(model("lazy", gpus=1, replicas=0, max_replicas=1, scaling=RESTS))
    fleet.waiting("lazy", 1)
    fleet.turn()
    fleet.all_ready()
    fleet.waiting("lazy", 0)
    fleet.busy("wide-000002", 4)
    fleet.turn()
    fleet.all_ready()
    for name in fleet.replicas:
        fleet.busy(name, 1)
    assert len(fleet.replicas) == 5
    return fleet


async def test_a_new_leader_that_is_blind_takes_nothing_away_that_serves():
    plan = await Leader(grown()).decides()
    assert plan.steps == ()
    assert plan.refusals == ()
    assert plan.sentence == (
        "3 of 6 nodes were lost; nothing is placed before n3, n4, n5 are heard"
    )


async def test_what_it_took_for_wanted_while_blind_is_not_what_is_wanted_once_all_are_heard():
    fleet = grown()
    for name in fleet.replicas:
        fleet.busy(name, 0)
    leader = Leader(fleet)
    whole = fleet.observed()
    few = [one for one in whole.replicas if one.model == "wide"][:1]
    leader.observed = msgspec.structs.replace(blind(fleet), replicas=tuple(few))
    await leader.decides()
    leader.observed = whole
    assert (await leader.decides()).steps == ()


@pytest.mark.parametrize("replicas", [1, 2])
async def test_what_is_missing_is_refused_and_says_until_when(replicas: int):
    fleet = Fleet()
    fleet.join(*(node(f"n{k}", devices=1) for k in range(6)))
    fleet.serve(model("chat", gpus=1, replicas=replicas))
    fleet.serve(model("lazy", gpus=1, replicas=0, max_replicas=1, scaling=RESTS))
    fleet.serve(model("rests", gpus=1, scaling=RESTS))
    plan = await Leader(fleet).decides()
    assert plan.steps == ()
    why = (
        "not placed before n3, n4, n5 are heard: it may run there; "
        "if they are gone: llmgw ctl node accept-loss"
    )
    assert [(one.model, one.words) for one in plan.refusals] == [("chat", why)]
    assert [one.verdict.rule for one in plan.refusals[0].candidates] == [RULE] * 3
    assert plan.sentence.endswith(f"are heard; can't place chat: {why}")
    told = routes(
        (),
        fleet.nodes.values(),
        fleet.desired().models,
        fleet.settings,
        key=lambda _: None,
        refusals=plan.refusals,
    )
    assert told[0].reason == f"can't be placed: {why}"


async def test_a_request_for_a_model_that_rests_is_told_why_it_waits_and_is_held():
    fleet = Fleet()
    fleet.join(*(node(f"n{k}", devices=1) for k in range(6)))
    fleet.serve(model("lazy", gpus=1, replicas=0, max_replicas=1, scaling=RESTS))
    fleet.waiting("lazy", 1)
    plan = await Leader(fleet).decides()
    assert [one.model for one in plan.refusals] == ["lazy"]
    told = routes(
        (),
        fleet.nodes.values(),
        fleet.desired().models,
        fleet.settings,
        key=lambda _: None,
        refusals=plan.refusals,
    )
    assert told[0].holds


def test_no_surplus_goes_while_it_may_be_all_that_is_left():
    fleet = grown()
    wide = fleet.models["wide"]
    least = (msgspec.structs.replace(wide.profiles[0], max_replicas=1, scaling=None),)
    fleet.serve(msgspec.structs.replace(wide, profiles=least))
    fleet.scales = {}
    assert _decided(fleet, fleet.observed()) != ()
    assert _decided(fleet, blind(fleet)) == ()


def test_what_a_person_stops_or_withdraws_goes_all_the_same():
    fleet = grown()
    fleet.withdraw("lazy")
    fleet.busy("wide-000002", 4)
    gone = _decided(fleet, blind(fleet))
    assert [(type(one), one.replica) for one in gone] == [(DrainReplica, "lazy-000001")]
    fleet.stop_cluster()
    gone = _decided(fleet, blind(fleet))
    assert {one.replica for one in gone} == fleet.replicas.keys()
    assert all(isinstance(one, DrainReplica | StopReplica) for one in gone)


def _decided(fleet: Fleet, observed: Observed):
    return fleet._decided(fleet.desired(), observed, lambda name: f"{name}-new").steps
