"""Public names, static endpoints, providers: what may be written, and the routes that it makes."""

from typing import Any

import pytest

from llmgw.model.check import check_settings
from llmgw.model.gateway import Endpoint, Route, Split
from llmgw.model.published import published
from llmgw.model.publishing import Publishing
from llmgw.model.publishing_check import check_publishing
from llmgw.model.settings import Settings
from llmgw.model.written import read_plain

OWN = Endpoint(replica="a-1", host="192.0.2.1", port=7500, key="k")
PROVIDERS = {"p": {"url": "https://api.example.com/v1", "key_file": "/etc/llmgw/p.key"}}


def written(**tree: Any) -> Publishing:
    return read_plain(tree, Publishing, "publishing")


def route_of(name: str, *routes: Route, stopped: bool = False, **tree: Any) -> Route:
    found = published(routes, written(**tree), stopped=stopped)
    return {route.model: route for route in found}[name]


def test_nothing_written_changes_nothing():
    routes = (Route(model="a", endpoints=(OWN,), wanted=1), Route(model="b", reason="why"))
    assert published(routes, Publishing()) == routes


def test_static_endpoints_serve_beside_replicas_and_without_any():
    tree = {
        "a": [{"url": "http://192.0.2.7:8000", "model": "A", "concurrency": 4}],
        "c": [{"url": "https://engines.example.com/openai/v1", "key_file": "/k"}],
    }
    own = route_of("a", Route(model="a", endpoints=(OWN,), wanted=1), endpoints=tree)
    assert own.endpoints[0] == OWN
    assert own.wanted == 2
    static = own.endpoints[1]
    assert (static.host, static.port, static.tls) == ("192.0.2.7", 8000, False)
    assert (static.served_name, static.concurrency, static.key) == ("A", 4, None)
    (alone,) = route_of("c", endpoints=tree).endpoints
    assert (alone.host, alone.port, alone.tls) == ("engines.example.com", 443, True)
    assert (alone.base_path, alone.key_file) == ("/openai/v1", "/k")
    resting = route_of("a", Route(model="a", holds=True, reason="rests"), endpoints=tree)
    assert (resting.holds, resting.reason) == (False, None)


def test_a_stopped_cluster_routes_to_no_static_endpoint_and_no_provider():
    tree = {"a": [{"url": "http://192.0.2.7:8000"}]}
    routes = {"a": {"fallback": {"provider": "p", "model": "x"}}}
    found = route_of("a", stopped=True, endpoints=tree, routes=routes, providers=PROVIDERS)
    assert (found.endpoints, found.outside) == ((), None)


def test_a_public_name_is_shared_by_weight_and_keeps_what_is_its_own():
    own = Route(model="a", endpoints=(OWN,))
    canary = {"a": {"models": {"a": 90, "b": 10, "c": 0}}}
    found = route_of("a", own, Route(model="b"), routes=canary)
    assert found.splits == (Split(model="a", weight=90), Split(model="b", weight=10))
    assert found.endpoints == (OWN,)
    assert route_of("a", own, routes={"a": {"models": {"a": 1}}}).splits == ()
    new = route_of("chat", own, routes={"chat": {"models": {"a": 1}}})
    assert (new.splits, new.endpoints) == ((Split(model="a", weight=1),), ())


def test_a_fall_back_is_a_model_or_a_provider():
    here = route_of("a", Route(model="a"), routes={"a": {"fallback": {"model": "b"}}})
    assert (here.fallback, here.outside) == ("b", None)
    outside = {"a": {"fallback": {"provider": "p", "model": "gpt-x"}}}
    there = route_of("a", Route(model="a"), routes=outside, providers=PROVIDERS).outside
    assert there is not None
    assert (there.served_name, there.is_outside, there.key) == ("gpt-x", True, None)
    assert (there.key_file, there.base_path) == ("/etc/llmgw/p.key", "/v1")


@pytest.mark.parametrize(
    ("tree", "path"),
    [
        ({"endpoints": {"a": [{"url": "ftp://x"}]}}, "endpoints.a[0].url"),
        ({"endpoints": {"a": [{"url": "http://u:p@x"}]}}, "endpoints.a[0].url"),
        ({"endpoints": {"a": [{"url": "http://x?key=1"}]}}, "endpoints.a[0].url"),
        ({"endpoints": {"a": [{"url": "http://x\r\ny"}]}}, "endpoints.a[0].url"),
        ({"endpoints": {"a": [{"url": f"http://{'x' * 64}.y"}]}}, "endpoints.a[0].url"),
        ({"providers": {"p": {"url": "http://x..y"}}}, "providers.p.url"),
        ({"endpoints": {"a": [{"url": "http://x", "key_file": "k"}]}}, "endpoints.a[0].key_file"),
        (
            {"endpoints": {"a": [{"url": "http://x", "key_file": "/etc/../k"}]}},
            "endpoints.a[0].key_file",
        ),
        (
            {"endpoints": {"a": [{"url": "http://x", "concurrency": 0}]}},
            "endpoints.a[0].concurrency",
        ),
        (
            {"endpoints": {"a": [{"url": "http://x"}, {"url": "y"}, {"url": "http://X:80/"}]}},
            "endpoints.a[2].url",
        ),
        ({"endpoints": {" a": [{"url": "http://x"}]}}, "endpoints. a"),
        ({"providers": {"p": {"url": "nothing"}}}, "providers.p.url"),
        ({"routes": {"a": {"models": {"b": 0}}}}, "routes.a.models"),
        ({"routes": {"a": {"models": {"b": -1, "c": 1}}}}, "routes.a.models.b"),
        (
            {"routes": {"a": {"models": {"b": 1}}, "b": {"models": {"c": 1}}}},
            "routes.a.models.b",
        ),
        (
            {"routes": {"a": {"fallback": {"provider": "q", "model": "x"}}}},
            "routes.a.fallback.provider",
        ),
        ({"routes": {"a": {"fallback": {"model": "a"}}}}, "routes.a.fallback.model"),
        ({"routes": {"a": {"fallback": {"model": ""}}}}, "routes.a.fallback.model"),
    ],
)
def test_each_mistake_is_told_at_its_place(tree: dict[str, Any], path: str):
    problems = check_publishing(written(**tree))
    assert path in [problem.path for problem in problems]
    assert not any("u:p" in problem.words or "key=1" in problem.words for problem in problems)
    whole = check_settings(Settings(publishing=written(**tree)))
    assert f"publishing.{path}" in [problem.path for problem in whole]


def test_what_is_right_has_no_problem():
    tree = {
        "endpoints": {
            "a": [{"url": f"http://[2001:db8::1]:8000{base}"} for base in ("/v1", "/v2", "")],
            "b": [{"url": "http://[2001:db8::1]:8000/v1"}],
        },
        "routes": {"chat": {"models": {"a": 3, "b": 1}, "fallback": {"model": "c"}}},
        "providers": PROVIDERS,
    }
    assert check_publishing(written(**tree)) == ()
