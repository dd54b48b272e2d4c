"""How gateways see the endpoints of routes."""

from llmgw.model.gateway import Endpoint, LoadReport, ReplicaLoad, Route
from tests.unit.metrics.scraped import named, seen, values

ROUTE = Route(
    model="m",
    endpoints=(Endpoint(replica="r1", host="h", port=1), Endpoint(replica="r2", host="h", port=2)),
)


def told(gateway: str, *replicas: ReplicaLoad, tells_failures: bool = True) -> LoadReport:
    return LoadReport(gateway=gateway, replicas=replicas, tells_failures=tells_failures)


def test_each_gateway_tells_what_failed_there_and_the_rest_is_up() -> None:
    loads = {
        "a": told("a", ReplicaLoad(replica="r1", in_flight=0, failed_at=2)),
        "b": told("b"),
    }
    snapshot = seen(routes=(ROUTE,), gateway_loads=loads)
    assert values(snapshot, "llmgw_endpoint_up") == {
        ("a", "m", "r1"): 0,
        ("a", "m", "r2"): 1,
        ("b", "m", "r1"): 1,
        ("b", "m", "r2"): 1,
    }


def test_requests_in_flight_are_zero_where_there_are_none_and_a_score_is_absent() -> None:
    load = ReplicaLoad(replica="r2", in_flight=3, score=4.5)
    snapshot = seen(routes=(ROUTE,), gateway_loads={"a": told("a", load)})
    in_flight = values(snapshot, "llmgw_endpoint_requests_in_flight")
    assert in_flight == {("a", "m", "r1"): 0, ("a", "m", "r2"): 3}
    assert values(snapshot, "llmgw_endpoint_score") == {("a", "m", "r2"): 4.5}


def test_of_a_gateway_that_does_not_tell_of_failures_nothing_is_said_to_be_up() -> None:
    load = ReplicaLoad(replica="r1", in_flight=1)
    snapshot = seen(routes=(ROUTE,), gateway_loads={"a": told("a", load, tells_failures=False)})
    assert "llmgw_endpoint_up" not in named(snapshot)
    assert values(snapshot, "llmgw_endpoint_requests_in_flight")["a", "m", "r1"] == 1


def test_a_replica_that_no_route_has_and_a_gateway_that_is_away_have_no_sample() -> None:
    loads = {"a": told("a", ReplicaLoad(replica="gone", in_flight=1, failed_at=1))}
    assert not [one for one in named(seen(gateway_loads=loads)) if "endpoint" in one]
    assert not [one for one in named(seen(routes=(ROUTE,))) if "endpoint" in one]
