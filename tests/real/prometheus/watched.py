"""A cluster that a real Prometheus scrapes: three nodes, a gateway, and some requests."""

import ctypes.util
import json
import os
import re
import shutil
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from llmgw.cli.main import app
from llmgw.local import demo_model
from llmgw.local.cluster import LocalCluster
from llmgw.model.catalog import SIMULATED, Model, Profile
from tests.cluster import ClusterOfMachines
from tests.fakes import recorded_machine
from tests.fakes.nvidia_smi import FIXTURES, H100, MIG, StubNvidiaSmi
from tests.fakes.recorded_machine import RecordedMachine
from tests.real.cluster.watching import Asking, ready
from tests.waiting import wait_for

CARDS, PARTS, PLAIN, WHOLE = "h100", "mig", "cpu", "whole"
"""The nodes: eight H100 with InfiniBand, one A100 cut into four instances, one without cards, and
a recorded machine, where files can be laid over this one's."""

ON_CPU, ON_GPU = "on-cpu", "on-gpu"
"""The models: the first one is asked for, the second one holds an H100 and is not."""

CHOICES = {"$node": ".*", "$gpu": ".*", "$model": ".*", "$fabric": ".*", "$__rate_interval": "30s"}

SETTLED = {
    "llmgw_leader_settled": 1,
    f'count(llmgw_gpu_health_age_seconds{{node="{CARDS}"}})': 8,
    f'count(llmgw_gpu_health_age_seconds{{node="{PARTS}"}})': 1,
    f'count(llmgw_gpu_nvlinks_down{{node!="{WHOLE}"}})': 9,
    "min(count_over_time(llmgw_gpu_nvlink_errors_total[5m]))": 2,
    "count(llmgw_fabric_subnet_managers)": 1,
    "min(count_over_time(llmgw_ib_port_flaps_total[5m]))": 2,
    "count(llmgw_gpu_memory_used_bytes > 5e10)": 1,
    "count(llmgw_shard_cpu_cores)": 2,
    "count(llmgw_probe_age_seconds)": 30,
    'sum(llmgw_requests_total{code="200"})': 10,
    "sum(llmgw_time_to_first_token_seconds_count)": 5,
    "min(count_over_time(llmgw_tokens_total[1m]))": 2,
}
"""What is there once everything that is read at all was read, and scraped twice where it counts."""

SETTLED_WHOLE = {
    f'count(llmgw_gpu_health_age_seconds{{node="{WHOLE}"}})': 8,
    f'count(llmgw_gpu_nvlinks_down{{node="{WHOLE}"}})': 8,
    f'min(count_over_time(llmgw_gpu_nvlink_errors_total{{node="{WHOLE}"}}[5m]))': 2,
    f'min(count_over_time(llmgw_ib_port_counter_total{{node="{WHOLE}"}}[5m]))': 2,
    f'count(llmgw_node_power_watts{{node="{WHOLE}"}})': 1,
    "count(llmgw_gpu_xid_open)": 1,
    "count(llmgw_gpu_nvlink_joined)": 1,
    "count(llmgw_imex_up)": 1,
}
"""The same of the recorded machine."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer, with its newest value."""

    labels: dict[str, str]
    value: float


class Prometheus:
    """A Prometheus of our own, as an owned process of the cluster."""

    def __init__(self, cluster: LocalCluster, directory: Path) -> None:
        self._log = cluster.owner.start(
            "prometheus",
            [
                "prometheus",
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={cluster.directory / 'tsdb'}",
                "--web.listen-address=127.0.0.1:0",
            ],
        ).log
        found = wait_for(self._address, 20, what="Prometheus listens")
        self._url = f"http://{found}/api/v1"

    def _address(self) -> str:
        match = re.search(r'msg="Listening on" address=(\S+)', self._log.read_text())
        return match[1] if match else ""

    def ask(self, path: str, **fields: str) -> Any:
        """Ask its API and return the data."""
        query = urllib.parse.urlencode(fields)
        request = urllib.request.Request(f"{self._url}/{path}?{query}")
        with urllib.request.urlopen(request, timeout=20) as answer:
            read = json.loads(answer.read())
        assert read["status"] == "success", read
        return read["data"]

    def query(self, expr: str) -> list[Series]:
        """Return what an expression gives now; Grafana's choices stand for everything."""
        for name, value in CHOICES.items():
            expr = expr.replace(name, value)
        data = self.ask("query", query=expr)
        assert data["resultType"] == "vector"
        return [Series(one["metric"], float(one["value"][1])) for one in data["result"]]

    def value(self, expr: str) -> float:
        """Return the sum of what an expression gives; 0 when it gives nothing."""
        return sum(one.value for one in self.query(expr))


@dataclass
class Watched:
    """All of it."""

    cluster: ClusterOfMachines
    prometheus: Prometheus
    cards: StubNvidiaSmi
    user: Asking
    no_whole: str
    """Why there is no recorded machine among its nodes; empty: there is one."""

    def until(self, expr: str, least: float, timeout: float = 60.0) -> None:
        """Wait until Prometheus gives at least that."""
        wait_for(lambda: self.prometheus.value(expr) >= least, timeout, what=f"{expr} >= {least}")

    def traffic(self, requests: int = 5) -> None:
        """Ask a few times, streamed and not, and once for what is not there."""
        for _ in range(requests):
            assert self.user.ask()[0] == 200
            assert self.user.stream(tokens=4).finished()


def watch(cluster: ClusterOfMachines, place: Path) -> Watched:
    """Start it, and return when Prometheus has seen everything that can be seen."""
    no_whole = recorded_machine.why_not(place / "tried")
    cards = StubNvidiaSmi(place / "cards", H100)
    _fabric_tools(cards.bin)
    parts = StubNvidiaSmi(place / "parts", MIG)
    cluster.start_server()
    cluster.put_settings(cluster.layout.settings)
    cluster.start_gateway()
    for node, tool in ((CARDS, cards), (PARTS, parts)):
        path = f"{tool.bin}:{cluster.owner.environ['PATH']}"
        cluster.start_agent(node, environ={"PATH": path}, labels={"models": "yes"})
    cluster.start_agent(PLAIN, labels={"models": "yes"})
    if not no_whole:
        cluster.start_machine(WHOLE, RecordedMachine(place / "whole"))
    for model in _models():
        cluster.put_model(model)
    watched = Watched(
        cluster,
        Prometheus(cluster, _configured(cluster, place / "observability")),
        cards,
        Asking(cluster, cluster.make_key("user"), ON_CPU),
        no_whole,
    )
    ready(cluster, ON_CPU, timeout=90)
    _idle_memory(watched)
    watched.traffic()
    _settle(watched)
    return watched


def _models() -> tuple[Model, ...]:
    on_gpu = Profile(
        engine=SIMULATED,
        gpus=1,
        device_classes=("h100-80g",),
        concurrency=8,
        node_selector={"models": "yes"},
    )
    return demo_model.simulated(ON_CPU), Model(name=ON_GPU, profiles=(on_gpu,))


def _fabric_tools(place: Path) -> None:
    """Put tools there that print what was recorded of a fabric."""
    for tool, recorded in (
        ("ibstat", "ibstat/h100-3-down-disabled.txt"),
        ("sminfo", "sminfo/master.txt"),
        ("saquery", "saquery/SMIR-two-sms.txt"),
    ):
        (place / tool).write_text(f"#!/bin/sh\nexec cat {FIXTURES / recorded}\n")
        (place / tool).chmod(0o755)


def _configured(cluster: LocalCluster, directory: Path) -> Path:
    """Export what the product ships, and make it fast enough for a test."""
    token = directory.parent / "metrics.token"
    answer = cluster.client().post("/tokens", {"name": "prometheus", "role": "metrics"})
    token.write_text(answer["token"])
    arguments = ["--target", str(cluster.admin), "--token-file", str(token)]
    done = CliRunner().invoke(app, ["observability", "export", str(directory), *arguments])
    assert done.exit_code == 0, done.output
    for name, slow in (("prometheus.yml", "15s"), ("rules/llmgw.rules.yml", "30s")):
        text = (directory / name).read_text()
        assert f"interval: {slow}" in text
        (directory / name).write_text(text.replace(f"interval: {slow}", "interval: 1s"))
    return directory


def _idle_memory(watched: Watched) -> None:
    """Let the card that a replica holds have memory in use, as one with a model loaded has."""
    replica = ready(watched.cluster, ON_GPU, timeout=90)[0]
    (held,) = replica["shards"][0]["devices"]
    devices = watched.cluster.client().get(f"/nodes/{CARDS}")["inventory"]["devices"]
    number = next(one["number"] for one in devices if one["uuid"] == held)
    watched.cards.change({number: {"memory.used": "60000 MiB"}})


def _settle(watched: Watched) -> None:
    more = {} if watched.no_whole else SETTLED_WHOLE
    for expr, least in {**SETTLED, **more}.items():
        watched.until(expr, least, 90)
    # Rates need samples before and after: the next requests come between two scrapes.
    watched.traffic(2)
    watched.until('sum(llmgw_requests_total{code="200"})', 14)
    watched.until("sum(rate(llmgw_time_to_first_token_seconds_count[30s])) > 0", 1e-9)


def why_not() -> str:
    """Return why it can't be done on this machine; empty when it can."""
    if shutil.which("prometheus") is None:
        return "no prometheus on this machine"
    if ctypes.util.find_library("nvidia-ml") is not None:
        return "agents would ask this machine's own NVIDIA driver"
    return ""


def sysfs_has_ports() -> bool:
    """Say whether this machine has InfiniBand or RoCE of its own, which agents then see."""
    place = Path("/sys/class/infiniband")
    return place.is_dir() and any(os.scandir(place))
