"""The file of a gateway without a control plane: what it may say, and the table that it makes."""

import hashlib
from typing import Any

import pytest

from llmgw.base.errors import Unreadable
from llmgw.gateway.endpoints_file import EndpointsFile, check_file, table_of
from llmgw.gateway.exposition import page
from llmgw.model.gateway import ChoiceCount, Histogram, ModelTraffic, RefusalCount, ReplyCount
from llmgw.model.written import read_plain, read_yaml

SHA = hashlib.sha256(b"llmgw_k1_secret").hexdigest()
TEXT = f"""
models:
  chat:
    - url: http://192.0.2.7:8000
      model: engine-name
    - url: https://engines.example.com/v1
      key_file: /etc/llmgw/engine.key
routes:
  chat:
    fallback: {{provider: p, model: big}}
providers:
  p: {{url: "https://api.example.com/v1", key_file: /etc/llmgw/p.key}}
keys:
  - {{id: k1, sha256: {SHA}, models: [chat], tokens_per_day: 1000}}
settings:
  idle_timeout: 30
"""


def read(text: str) -> EndpointsFile:
    return read_yaml(text, EndpointsFile, "file", meaning=check_file)


def test_a_file_makes_the_table_that_a_control_plane_would_send():
    table = table_of(read(TEXT))
    (route,) = table.routes.values()
    assert [one.host for one in route.endpoints] == ["192.0.2.7", "engines.example.com"]
    assert [one.tls for one in route.endpoints] == [False, True]
    assert route.outside is not None
    assert route.outside.served_name == "big"
    (key,) = table.keys.values()
    assert (key.sha256, key.models, key.tokens_per_day) == (SHA, ("chat",), 1000)
    assert table.config is not None
    assert table.config.idle_timeout == 30


@pytest.mark.parametrize(
    ("tree", "path"),
    [
        ({"models": {"m": [{"url": "nothing"}]}}, "models.m[0].url"),
        ({"keys": [{"id": "k1", "sha256": "secret"}]}, "keys[0].sha256"),
        ({"keys": [{"id": "k_1", "sha256": SHA}]}, "keys[0].id"),
        ({"keys": [{"id": "k1", "sha256": SHA}] * 2}, "keys[1].id"),
        ({"keys": [{"id": "k1", "sha256": SHA, "concurrent": 0}]}, "keys[0].concurrent"),
        ({"settings": {"connect_timeout": 0}}, "settings.connect_timeout"),
    ],
)
def test_each_mistake_is_told_at_its_place(tree: dict[str, Any], path: str):
    problems = check_file(read_plain(tree, EndpointsFile, "file"))
    assert [problem.path for problem in problems] == [path]


def test_an_unknown_field_is_refused():
    with pytest.raises(Unreadable, match="endpoint"):
        read("endpoints: {}")


def test_the_page_has_what_was_counted_and_nothing_that_was_not():
    traffic = ModelTraffic(
        model='m"\n',
        replies=(ReplyCount(code=200, count=7),),
        duration=Histogram(bounds=(0.1, 1.0), counts=(1, 4, 7), sum=2.5),
        choices=(ChoiceCount(reason="prefix", count=3),),
        refusals=(RefusalCount(code="queue_full", count=2),),
        errors=(RefusalCount(code="engine_failed", count=4),),
        waited=Histogram(bounds=(0.1,), counts=(1, 5), sum=0.5),
    )
    text = page({0: (traffic,), 1: ()}, [("m", "static/m/h:1", False, 2)], {0: {"m": 3}}, 1)
    assert 'llmgw_requests_total{model="m\\"?",worker="0",code="200"} 7\n' in text
    assert '_bucket{model="m\\"?",worker="0",le="+Inf"} 7\n' in text
    assert 'llmgw_prefix_decisions_total{model="m\\"?",worker="0",reason="prefix"} 3\n' in text
    assert 'llmgw_refusals_total{model="m\\"?",worker="0",code="queue_full"} 2\n' in text
    assert 'llmgw_request_errors_total{model="m\\"?",worker="0",code="engine_failed"} 4\n' in text
    assert 'llmgw_queue_wait_seconds_count{model="m\\"?",worker="0"} 5\n' in text
    assert 'llmgw_endpoint_up{model="m",endpoint="static/m/h:1"} 0\n' in text
    assert "first_token" not in text
    assert "time_to_first" not in text
    assert 'llmgw_requests_queued{model="m",worker="0"} 3\n' in text
    assert 'llmgw_requests_queued{model="m\\"?",worker="0"} 0\n' in text
    assert "llmgw_keys_over_quota 1\n" in text
    (only,) = [line for line in page({}, [], {}, 0).splitlines() if line[0] != "#"]
    assert only == "llmgw_keys_over_quota 0"
