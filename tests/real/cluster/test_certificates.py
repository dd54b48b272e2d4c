"""Certificates that live for a minute: renewed over the live stream, nothing is interrupted."""

import time

import pytest

from llmgw.local import demo_model
from tests.real.cluster.conftest import Make
from tests.real.cluster.watching import Asking, liveness, node, pid_of, ready
from tests.waiting import wait_for

pytestmark = pytest.mark.real

LIFETIME = 60.0


def test_a_node_s_certificate_is_renewed_over_its_live_stream(make_cluster: Make) -> None:
    cluster = make_cluster(settings={"reconcile.settling": 0.0, "certificates.lifetime": LIFETIME})
    cluster.start(agents=1)
    model = demo_model.simulated(arguments=("--tokens-per-second", "10"))
    cluster.put_model(model)
    replica = ready(cluster, model.name)[0]
    user = Asking(cluster, cluster.make_key("user"), model.name)
    wait_for(user.works)
    began = time.monotonic()
    first = node(cluster, "node-1")
    stream = user.stream(tokens=700)
    stream.begun()

    def renewed() -> bool:
        ends = node(cluster, "node-1")["certificate_ends"]
        return bool(ends and ends > first["certificate_ends"] + 10)

    wait_for(renewed, LIFETIME, what="the certificate is renewed before it ends")
    # Past the end of the first certificate the stream must stand on the second.
    while time.monotonic() - began < LIFETIME + 5:
        assert liveness(cluster, "node-1") == "ready"
        assert user.works()
        time.sleep(1)  # noqa: TID251  (the end of a real certificate is a real time)
    seen = node(cluster, "node-1")
    assert seen["peer"] == first["peer"], "the node had to connect anew"
    assert pid_of(ready(cluster, model.name)[0]) == pid_of(replica)
    assert stream.finished()
