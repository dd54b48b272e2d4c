"""Nothing secret is shown: every secret is searched for in everything that others can see."""

import base64
import json
import os
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgw.base.errors import LlmgwError
from llmgw.local import demo_model
from llmgw.local.cluster import LocalCluster
from llmgw.model.feed import TOPICS
from tests.real.cluster.conftest import Make
from tests.real.cluster.watching import Asking, ready
from tests.waiting import wait_for

pytestmark = pytest.mark.real

PATHS = (
    "/status",
    "/nodes",
    "/nodes/node-1",
    "/nodes/node-1/logs",
    "/replicas",
    "/models",
    "/keys",
    "/tokens",
    "/settings",
    "/settings-history",
    "/gateways",
    "/plan",
    "/usage",
    "/events",
    "/audit",
    "/openapi.json",
)

AS_NOBODY = """
import os, pathlib, sys
os.setgid(65534); os.setuid(65534)
for process in pathlib.Path("/proc").iterdir():
    if process.name.isdigit():
        for name in ("cmdline", "environ"):
            try: sys.stdout.buffer.write((process / name).read_bytes() + b"\\n")
            except OSError: pass
"""


def forms(secret: str) -> Iterator[bytes]:
    """Yield a secret as it may appear: raw, base64 at each alignment, URL-quoted, JSON-escaped."""
    yield secret.encode()
    yield urllib.parse.quote(secret, safe="").encode()
    yield json.dumps(secret)[1:-1].encode()
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + secret.encode())
        # The characters at both ends depend on the neighbours.
        yield text[4 if shift else 0 : -4]


def found_in(data: bytes, secrets: dict[str, str]) -> list[str]:
    return [name for name, secret in secrets.items() if any(f in data for f in forms(secret))]


def made_secrets(cluster: LocalCluster) -> dict[str, str]:
    """Make one of each kind of secret, and use it."""
    client = cluster.client()
    join = client.post("/join-tokens", {"role": "node", "subject": "node-9"})["token"]
    return {
        "admin token": cluster.token_file.read_text().strip(),
        "user's key": cluster.make_key("user").reveal(),
        "operator's token": client.post("/tokens", {"name": "ci", "role": "read"})["token"],
        "one-time token": join,
        "one-time token's secret": join.rpartition(".")[2],
    }


def engine_keys(cluster: LocalCluster) -> dict[str, str]:
    """Return the keys that the agent keeps for its engines."""
    files = [
        file
        for file in (cluster.agent_state("node-1") / "shards").rglob("*")
        if file.is_file() and "key" in file.name
    ]
    return {f"engine's key {n}": file.read_text().strip() for n, file in enumerate(files)}


def test_no_secret_is_in_logs_arguments_environments_answers_metrics_or_the_store(
    make_cluster: Make,
) -> None:
    cluster = make_cluster(log_level="debug")
    cluster.start(agents=1)
    model = demo_model.simulated()
    cluster.put_model(model)
    ready(cluster, model.name)
    secrets = made_secrets(cluster)
    keys = engine_keys(cluster)
    assert keys, "the test no longer finds the engine's key on disk"
    secrets |= keys
    user = Asking(cluster, cluster.make_key("u2"), model.name)
    wait_for(user.works)
    _use_everywhere(cluster, secrets, model.name)

    for log in cluster.directory.glob("*.log"):
        assert found_in(log.read_bytes(), secrets) == [], log
    for log in cluster.agent_state("node-1").rglob("*log*"):
        if log.is_file():
            assert found_in(log.read_bytes(), secrets) == [], log
    for path in PATHS:
        answer = json.dumps(cluster.client().get(path)).encode()
        assert found_in(answer, secrets) == [], path
    listing = cluster.client().get("/list", {"topics": TOPICS})
    assert found_in(json.dumps(listing).encode(), secrets) == []
    assert found_in(_metrics(cluster), secrets) == []
    for file in cluster.server_state.glob("*.sqlite*"):
        assert found_in(file.read_bytes(), secrets) == [], file


def _use_everywhere(cluster: LocalCluster, secrets: dict[str, str], model: str) -> None:
    """Send each secret where it does not belong, so that errors have something to give away."""
    import http.client

    for secret in secrets.values():
        for port, path in (
            (cluster.gateway_port, "/v1/completions"),
            (int(str(cluster.admin).rpartition(":")[2]), "/api/v1/status"),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            headers = {"Authorization": f"Bearer {secret}", "X-Api-Key": secret}
            body = json.dumps({"model": model, "prompt": "x", "max_tokens": 1})
            connection.request("POST", path, body, headers)
            connection.getresponse().read()
            connection.close()


def _metrics(cluster: LocalCluster) -> bytes:
    import http.client

    host, _, port = str(cluster.admin).rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", "/metrics")
    data = connection.getresponse().read()
    connection.close()
    assert b"llmgw_build_info" in data
    return data


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_user_of_the_machine_sees_no_secret(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.start(agents=1)
    model = demo_model.simulated()
    cluster.put_model(model)
    ready(cluster, model.name)
    secrets = made_secrets(cluster) | engine_keys(cluster)
    done = subprocess.run(
        [sys.executable, "-I", "-c", AS_NOBODY], capture_output=True, check=True, timeout=30
    )
    assert b"llmgw" in done.stdout, "the test no longer sees the services' arguments"
    assert found_in(done.stdout, secrets) == []
    assert _readable_by_others(cluster.directory) == []


def _readable_by_others(directory: Path) -> list[Path]:
    """Return files that others could read if they got into the folder, which they can't."""
    private = [
        path
        for path in directory.rglob("*")
        if path.is_file() and ("key" in path.name or "token" in path.name)
    ]
    assert private
    return [path for path in private if path.stat().st_mode & 0o077]


def test_a_traceback_that_is_asked_for_shows_no_token(make_cluster: Make) -> None:
    cluster = make_cluster()
    cluster.start_server()
    wrong = "llmgw_abcdef_" + "Zz9-_" * 8
    done = subprocess.run(
        [sys.executable, "-m", "llmgw", "--debug", "ctl", "nodes"],
        env={
            **cluster.owner.environ,
            "LLMGW_SERVER": f"http://{cluster.admin}",
            "LLMGW_TOKEN": wrong,
        },
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert b"Traceback" in done.stderr
    assert found_in(done.stdout + done.stderr, {"token": wrong}) == []
    with pytest.raises(LlmgwError) as caught:
        cluster.client().get("/nodes/nobody")
    token = cluster.token_file.read_text().strip()
    assert token not in str(caught.value) + repr(caught.value.__dict__)
