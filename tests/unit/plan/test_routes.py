"""Where requests go."""

import msgspec

from llmgw.model.catalog import Model, Profile, Scaling
from llmgw.model.gateway import Endpoint, Route
from llmgw.model.replica import Replica
from llmgw.model.shard import FAILED
from llmgw.plan.records import (
    NEVER,
    NOT_NOW,
    NOT_UNLESS_EVICTED,
    Candidate,
    Refusal,
    Verdict,
    Want,
)
from llmgw.plan.routes import routes
from tests.unit.plan.fleet import Fleet, model, node


def fleet(**profile) -> Fleet:
    one = Fleet()
    one.join(node("n1"), node("n2"))
    one.serve(model("qwen", **{"replicas": 2, **profile}))
    one.turn()
    one.all_ready()
    return one


def all_routes(one: Fleet, refusals: tuple[Refusal, ...] = ()) -> tuple[Route, ...]:
    return routes(
        one.replicas.values(),
        one.nodes.values(),
        one.desired().models,
        one.settings,
        key=lambda replica: f"key of {replica}",
        refusals=refusals,
    )


def route(one: Fleet, refusals: tuple[Refusal, ...] = ()) -> Route:
    (found,) = all_routes(one, refusals)
    return found


def change(one: Fleet, replica: str, **fields) -> None:
    one.replicas[replica] = msgspec.structs.replace(one.replicas[replica], **fields)


def change_shard(one: Fleet, replica: str, **fields) -> None:
    (shard,) = one.replicas[replica].shards
    change(one, replica, shards=(msgspec.structs.replace(shard, **fields),))


def served_by(one: Fleet) -> list[str]:
    return [endpoint.replica for endpoint in route(one).endpoints]


def test_ready_replicas_are_routed_to_with_key_name_and_node():
    one = fleet()
    change_shard(one, "qwen-000001", served_name="served", port=7501, address="192.0.2.9")
    assert route(one).endpoints[0] == Endpoint(
        replica="qwen-000001",
        node="n1",
        host="192.0.2.9",
        port=7501,
        key="key of qwen-000001",
        served_name="served",
        engine="simulated",
    )
    assert (route(one).wanted, route(one).reason) == (2, None)


def test_an_engine_that_runs_without_a_key_is_sent_none():
    one = fleet()
    change_shard(one, "qwen-000001", keyed=False)
    assert [e.key for e in route(one).endpoints] == [None, "key of qwen-000002"]


def test_a_replica_of_an_unreachable_node_stays_and_of_a_lost_one_is_a_last_resort():
    one = fleet()
    one.change("n1", liveness="unreachable")
    one.change("n2", liveness="lost")
    assert [(e.node, e.last_resort) for e in route(one).endpoints] == [("n1", False), ("n2", True)]


def test_what_is_draining_or_not_ready_is_not_routed_to():
    one = fleet()
    change(one, "qwen-000001", state="draining")
    assert served_by(one) == ["qwen-000002"]
    for state in ("starting", "fetching", "stuck", "stopping", FAILED, None):
        change(one, "qwen-000002", state=state)
        assert served_by(one) == []


def test_a_replica_of_a_draining_node_serves_until_it_is_stopped():
    one = fleet(replicas=1)
    one.change("n1", wish="draining")
    assert served_by(one) == ["qwen-000001"]
    one.turn()
    one.all_ready()
    assert served_by(one) == ["qwen-000001", "qwen-000002"]
    one.turn()
    assert served_by(one) == ["qwen-000002"]


def test_a_replica_without_a_port_or_of_a_removed_node_is_not_routed_to():
    one = fleet()
    change_shard(one, "qwen-000001", port=None)
    del one.nodes["n2"]
    assert served_by(one) == []


def test_the_nodes_address_is_used_where_the_shard_says_none():
    one = fleet()
    change_shard(one, "qwen-000001", address=None)
    assert route(one).endpoints[0].host == "192.0.2.1"


def test_a_stopped_cluster_routes_nothing_and_says_so():
    one = fleet()
    one.stop_cluster()
    assert (route(one).endpoints, route(one).reason) == ((), "the cluster is stopped")


def test_routes_come_by_name_one_a_model_of_the_catalog_and_none_else():
    one = fleet()
    one.serve(model("aaa", replicas=0))
    one.withdraw("qwen")
    assert [(r.model, r.endpoints, r.reason) for r in all_routes(one)] == [
        ("aaa", (), "no replica of it is wanted")
    ]


def test_the_reason_is_what_starts_then_what_was_refused_then_what_failed():
    one = Fleet()
    one.join(node("n1"))
    one.serve(model("qwen"))
    assert route(one).reason == "not started yet"
    plan = one.plan()
    one.apply(plan)
    refusal = Refusal(model="qwen", profile="default", candidates=(), words="n1: too small")
    assert route(one, (refusal,)).reason == "starting: qwen-000001 is starting on n1"
    one.state("qwen-000001", FAILED, "out of memory")
    assert route(one).reason == "qwen-000001 failed: out of memory"
    assert route(one, (refusal,)).reason == "can't be placed: n1: too small"


def test_progress_does_not_change_a_route():
    one = Fleet()
    one.join(node("n1"))
    one.serve(model("qwen"))
    one.turn()
    before = route(one)
    change(one, "qwen-000001", since=5000.0, reason="fetching 1 of 2 GB")
    assert route(one) == before


def test_a_replica_of_several_nodes_is_reached_at_its_first_shard():
    one = fleet(replicas=1)
    known = one.replicas["qwen-000001"]
    second = msgspec.structs.replace(known.shards[0], rank=1, node="n2", port=None)
    one.replicas["qwen-000001"] = Replica(
        **{**msgspec.structs.asdict(known), "shards": (second, known.shards[0])}
    )
    assert [e.node for e in route(one).endpoints] == ["n1"]
    one.change("n2", liveness="lost")
    assert [e.last_resort for e in route(one).endpoints] == [True]


ON_DEMAND = Profile(engine="simulated", replicas=0, max_replicas=1)
RESTS = Want(model="qwen", profile="default", replicas=0, words="nothing is asked of it")


def asked(
    one: Fleet, *wants: Want, refusals: tuple[Refusal, ...] = (), profiles=(ON_DEMAND,)
) -> Route:
    """Return the route of a model that a request starts, as scaling looks at it."""
    one.serve(Model(name="qwen", profiles=profiles))
    (found,) = routes(
        one.replicas.values(),
        one.nodes.values(),
        one.desired().models,
        one.settings,
        key=lambda replica: None,
        refusals=refusals,
        wants=wants,
    )
    return found


def refused(profile: str, kind: str, rule: str = "devices") -> Refusal:
    verdict = Verdict(kind=kind, rule=rule, words="n1: too small")
    candidates = (Candidate(node="n1", verdict=verdict),)
    return Refusal(model="qwen", profile=profile, candidates=candidates, words="n1: too small")


def runs(state: str) -> Fleet:
    one = fleet(replicas=1)
    change(one, "qwen-000001", state=state)
    return one


def test_what_a_request_starts_says_so_before_scaling_has_looked_at_it():
    """While a cluster settles nobody has counted; what runs already counts as wanted."""
    found = asked(Fleet())
    assert (found.wanted, found.holds) == (0, True)
    assert found.reason == "its replicas are not counted yet: a request starts it"
    stops = Profile(engine="simulated", replicas=2, scaling=Scaling(idle_stop=60))
    found = asked(Fleet(), profiles=(stops,))
    assert (found.wanted, found.holds) == (0, True)
    assert found.reason == "its replicas are not counted yet: a request starts it"
    assert asked(runs("ready"), profiles=(stops,)).wanted == 1


def test_what_always_runs_is_wanted_before_scaling_has_looked_at_it():
    always = Profile(engine="simulated", replicas=2, max_replicas=4, scaling=Scaling(queued=1))
    found = asked(Fleet(), profiles=(always,))
    assert (found.wanted, found.holds, found.reason) == (2, False, "not started yet")


def test_what_rests_says_why_and_what_starts_it_though_the_last_still_leaves():
    for one in (Fleet(), runs("draining"), runs("stopping"), runs(FAILED)):
        found = asked(one, RESTS)
        assert (found.reason, found.holds, found.wanted) == (
            "nothing is asked of it: a request starts it",
            True,
            0,
        )


def test_what_leaves_is_never_called_starting():
    one = fleet(replicas=1)
    for state in ("draining", "stopping"):
        change(one, "qwen-000001", state=state)
        assert route(one).reason == f"stopping: qwen-000001 is {state} on n1"


def test_requests_wait_for_what_starts_though_another_replica_of_it_finds_no_place():
    want = msgspec.structs.replace(RESTS, replicas=2)
    found = asked(runs("starting"), want, refusals=(refused("default", NEVER),))
    assert (found.holds, found.reason) == (True, "starting: qwen-000001 is starting on n1")


def test_requests_wait_where_waiting_helps_and_for_no_start_that_failed():
    for kind, rule, holds in (
        (NOT_NOW, "devices", True),
        (NOT_NOW, "failures", False),
        (NOT_UNLESS_EVICTED, "devices", False),
        (NEVER, "devices", False),
    ):
        found = asked(Fleet(), RESTS, refusals=(refused("default", kind, rule),))
        assert (found.holds, found.reason) == (holds, "can't be placed: n1: too small")


def test_of_several_profiles_each_says_why_and_requests_wait_while_one_is_left():
    two = (ON_DEMAND, msgspec.structs.replace(ON_DEMAND, name="other"))
    refusals = (refused("default", NEVER),)
    found = asked(Fleet(), RESTS, refusals=refusals, profiles=two)
    assert (found.holds, found.reason) == (True, "can't be placed: default: n1: too small")
    other = Want(model="qwen", profile="other", replicas=0, words="", refused="n2: is full")
    found = asked(Fleet(), RESTS, other, refusals=refusals, profiles=two)
    assert (found.holds, found.reason) == (
        False,
        "can't be placed: default: n1: too small; other: n2: is full",
    )


def test_gateways_are_told_how_many_requests_a_replica_serves_at_once():
    assert [one.concurrency for one in route(fleet(concurrency=8)).endpoints] == [8, 8]
    assert [one.concurrency for one in route(fleet()).endpoints] == [None, None]
