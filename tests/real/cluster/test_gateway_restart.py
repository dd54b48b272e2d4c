"""An operator has a gateway's workers restarted; and users are shown what the cluster signs."""

import http.client
import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from llmgw.local import demo_model
from llmgw.local.cluster import LocalCluster
from tests.real.cluster.conftest import Make
from tests.real.cluster.watching import Asking, llmgw, ready
from tests.waiting import wait_for

pytestmark = pytest.mark.real

MODEL = "simulated"
TOKENS, PER_SECOND = 100, 20
STREAMS = 12


class Knocking:
    """Opens one connection after the other, each with a request, and notes what went wrong."""

    def __init__(self, port: int, key: str) -> None:
        self.answered = 0
        self.wrong: list[str] = []
        self._port, self._key = port, key
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Knocking":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(10.0)

    def _run(self) -> None:
        while not self._over.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
            try:
                headers = {"Authorization": f"Bearer {self._key}"}
                connection.request("GET", "/v1/models", headers=headers)
                status = connection.getresponse().status
                self.answered += 1
                if status != http.client.OK:
                    self.wrong.append(f"{status}")
            except OSError as error:
                self.wrong.append(repr(error))
            finally:
                connection.close()


def gateway(cluster: LocalCluster) -> dict[str, Any]:
    (found,) = cluster.client().get("/gateways")
    seen: dict[str, Any] = found
    return seen


def began(cluster: LocalCluster) -> list[float]:
    return sorted(one["began"] for one in gateway(cluster)["started"] or ())


def test_workers_are_replaced_from_afar_and_no_connection_is_refused_or_reset(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    cluster.start(agents=1)
    cluster.put_model(
        demo_model.simulated(MODEL, arguments=("--tokens-per-second", str(PER_SECOND)))
    )
    ready(cluster, MODEL)
    asking = Asking(cluster, cluster.make_key("user"), MODEL)
    wait_for(asking.works)
    wait_for(lambda: len(began(cluster)) == 2, what="both workers are known")
    before, name = began(cluster), gateway(cluster)["id"]
    streams = [asking.stream(TOKENS) for _ in range(STREAMS)]
    for one in streams:
        one.begun()
    with Knocking(asking.port, asking.key.reveal()) as knocking:
        dry = llmgw(cluster, "ctl", "gateway", "restart", name, "--dry-run")
        assert "nothing was changed" in dry.stderr
        told = json.loads(llmgw(cluster, "ctl", "gateway", "restart", name, "-o", "json").stdout)
        assert sorted(one["began"] for one in told["started"]) == before
        newer = before[-1]
        wait_for(
            lambda: sum(at > newer for at in began(cluster)) == 2, 30, what="two new workers began"
        )
        assert all(one.finished() for one in streams)
        wait_for(lambda: len(began(cluster)) == 2, 30, what="the old workers are gone")
    assert knocking.wrong == []
    assert knocking.answered > 50
    assert began(cluster)[0] > newer
    (entry, *_) = json.loads(llmgw(cluster, "ctl", "audit", "-o", "json").stdout)
    assert (entry["action"], entry["subject"]) == ("gateway.restart", name)


@contextmanager
def gateway_with_tls(cluster: LocalCluster, directory: Path) -> Iterator[int]:
    """Run a gateway of its own that joins, and shows what the cluster signs; yield its port."""
    token = llmgw(cluster, "ctl", "gateway", "token", "edge").stdout.strip()
    log = directory / "edge.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "llmgw", "gateway", "--tls", "cluster", "--join", "-"),
                *("--listen", "127.0.0.1:0", "--server", str(cluster.link), "--workers", "1"),
                *("--state-dir", str(directory / "edge")),
            ],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
        )
    try:
        assert process.stdin is not None
        process.stdin.write(token.encode())
        process.stdin.close()
        url = wait_for(lambda: url_of(cluster, "edge"), 30, what=log.read_text())
        assert url.startswith("https://")
        yield int(url.rpartition(":")[2])
    finally:
        process.kill()
        process.wait()


def url_of(cluster: LocalCluster, name: str) -> str:
    found = [one for one in cluster.client().get("/gateways") if one["id"] == name]
    return (found[0]["url"] or "") if found and found[0]["connected"] else ""


def names_shown(port: int, authority: Path) -> set[str]:
    """Return the names in the certificate that a client sees who trusts the cluster's CA."""
    context = ssl.create_default_context(cafile=str(authority))
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    try:
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == http.client.OK
        shown: Any = connection.sock
        return {name for _, name in shown.getpeercert()["subjectAltName"]}
    finally:
        connection.close()


def test_a_gateway_that_joined_shows_users_what_the_cluster_signs_for_the_names_it_is_told(
    make_cluster: Make, tmp_path: Path
) -> None:
    cluster = make_cluster()
    cluster.start(agents=0)
    cluster.client().put("/settings", {"path": "gateway.tls_names", "value": ["a.example"]})
    with gateway_with_tls(cluster, tmp_path) as port:
        authority = tmp_path / "edge" / "users" / "authority.pem"
        wait_for(authority.exists, 20, what="a certificate was signed")
        assert {"a.example", "edge", "127.0.0.1"} <= names_shown(port, authority)
        names = ["a.example", "b.example"]
        cluster.client().put("/settings", {"path": "gateway.tls_names", "value": names})
        wait_for(lambda: "b.example" in names_shown(port, authority), 20, what="another is signed")
