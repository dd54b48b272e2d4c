"""An operator looks at requests in flight in a whole cluster, and ends one of them."""

import json
import time
from typing import Any

import pytest

from llmgw.local import demo_model
from llmgw.local.cluster import LocalCluster
from tests.real.cluster.conftest import Make
from tests.real.cluster.watching import Asking, llmgw, pid_of, ready, sockets_of
from tests.waiting import wait_for

pytestmark = pytest.mark.real

MODEL = "simulated"
TOKENS, PER_SECOND = 400, 20
STREAMS = 4
ENDS_WITHIN = 1.0
"""Seconds between the operator's word and the engine's end of its connection."""


def in_flight(cluster: LocalCluster, *words: str) -> list[dict[str, Any]]:
    told = json.loads(llmgw(cluster, "ctl", "requests", *words, "-o", "json").stdout)
    found: list[dict[str, Any]] = told["requests"]
    return found


def test_one_request_is_ended_and_the_others_go_on(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.start(agents=1)
    cluster.put_model(
        demo_model.simulated(MODEL, arguments=("--tokens-per-second", str(PER_SECOND)))
    )
    (replica,) = ready(cluster, MODEL)
    asking = Asking(cluster, cluster.make_key("user"), MODEL)
    wait_for(asking.works)
    streams = [asking.stream(TOKENS) for _ in range(STREAMS)]
    for one in streams:
        one.begun()
    wait_for(
        lambda: cluster.client().get("/traffic")["whole"]["requests_per_second"] is not None,
        30,
        what="rates are measured",
    )
    found = in_flight(cluster, "--key", "user")
    assert [(one["state"], one["model"], one["node"]) for one in found] == [
        ("streaming", MODEL, replica["shards"][0]["node"])
    ] * STREAMS
    assert in_flight(cluster, "--key", "nobody") == []
    assert llmgw(cluster, "ctl", "requests", "show", found[0]["id"]).stdout.startswith("request")

    engine, port = pid_of(replica), replica["shards"][0]["port"]
    wait_for(lambda: len(sockets_of(engine, local=port)) >= STREAMS, what="all are at the engine")
    before, begun = sockets_of(engine, local=port), time.monotonic()
    cluster.client().post("/requests/cancel", {"ids": [found[0]["id"]]})
    wait_for(
        lambda: len(before - sockets_of(engine, local=port)) >= 1, what="the engine's connection"
    )
    assert time.monotonic() - begun < ENDS_WITHIN
    ended = wait_for(lambda: [one for one in streams if "error" in one.events[-1]])
    assert [one.events[-1]["error"]["code"] for one in ended] == ["cancelled_by_operator"]
    assert len(in_flight(cluster)) == STREAMS - 1

    (entry, *_) = json.loads(llmgw(cluster, "ctl", "audit", "-o", "json").stdout)
    assert (entry["action"], entry["subject"]) == ("request.cancel", found[0]["id"])
    booked = wait_for(
        lambda: [row for row in cluster.client().get("/usage") if row["cancelled"]],
        what="its use is booked",
    )
    assert [row["cancelled"] for row in booked] == [1]
    assert booked[0]["completion_tokens"] > 0
    codes = wait_for(
        lambda: cluster.client().get("/traffic")["whole"]["codes"], what="its code is counted"
    )
    assert codes == [{"code": "cancelled_by_operator", "count": 1}]
    done = llmgw(cluster, "ctl", "requests", "cancel", "--key", "user", "--yes")
    assert done.stdout == f"{STREAMS - 1} requests cancelled\n"
    wait_for(lambda: in_flight(cluster) == [])
    gone = cluster.client().post("/requests/cancel", {"ids": [found[0]["id"]]})
    assert (gone["cancelled"], gone["gone"]) == ([], [found[0]["id"]])
