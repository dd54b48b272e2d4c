"""A history of hours, asked of a real Prometheus that holds some."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgw.base.errors import Refused
from llmgw.control import ranges
from llmgw.control.prometheus import Prometheus
from llmgw.model.history import PROMETHEUS, Values
from llmgw.model.work import POWER, SM_ACTIVE
from tests.waiting import wait_for

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="needs Debian's prometheus",
)

CLUSTER = "north"
NODE, CARD = "gpu-01", 'node="gpu-01",gpu="0",uuid="GPU-1"'
END = 1_790_000_000 // 60 * 60
HOURS = 6
EVERY = 60
GAP = range(120, 180)
"""Minutes of which there is no sample."""


def recorded() -> str:
    """Return six hours of a node, of its one card, and of another node, as OpenMetrics."""
    families: dict[str, list[str]] = {}

    def add(name: str, labels: str, at: int, value: float) -> None:
        families.setdefault(name, []).append(f"{name}{{{labels}}} {value} {at}")

    start = END - HOURS * 3600
    for minute in range(HOURS * 60 + 1):
        at = start + minute * EVERY
        add("llmgw_node_load", 'node="other"', at, 99.0)
        for target in ("", 'instance="cp-1",', 'instance="cp-2",'):
            add("llmgw_build_info", f'{target}cluster="{CLUSTER}"', at, 1.0)
        # Another cluster has a node of the same name.
        add("llmgw_build_info", 'instance="cp-9",cluster="south"', at, 1.0)
        add("llmgw_node_cpu_utilization_percent", f'node="{NODE}",instance="cp-9"', at, 100.0)
        add("llmgw_gpu_busy_ratio", f'{CARD},instance="cp-9"', at, 1.0)
        add("llmgw_node_load", f'node="{NODE}",instance="cp-9"', at, 88.0)
        if minute in GAP:
            continue
        add("llmgw_node_cpu_utilization_percent", f'node="{NODE}"', at, minute % 100)
        add("llmgw_gpu_busy_ratio", CARD, at, 0.5)
        add("llmgw_gpu_power_watts", f'{CARD},instance="cp-1"', at, 300.0)
        add("llmgw_gpu_power_watts", f'{CARD},instance="cp-2"', at, 310.0)
        source = "power" if minute < 200 else "sm_active"
        add("llmgw_gpu_work_ratio", f'{CARD},source="{source}"', at, 0.25)
    lines = [
        line
        for name, samples in families.items()
        for line in (f"# TYPE {name} gauge", *sorted(samples, key=lambda one: one.split("} ")[0]))
    ]
    return "\n".join((*lines, "# EOF\n"))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place = tmp_path_factory.mktemp("prometheus")
    (place / "recorded.txt").write_text(recorded())
    (place / "prometheus.yml").write_text("global: {}\n")
    made = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "recorded.txt", "tsdb"]
    subprocess.run(made, cwd=place, check=True, capture_output=True, timeout=60)
    log = place / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [
                "prometheus",
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=tsdb",
                "--storage.tsdb.retention.time=10y",
                "--web.listen-address=127.0.0.1:0",
            ],
            cwd=place,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        yield wait_for(lambda: _ready(log), 30, what="Prometheus is ready")
    finally:
        process.terminate()
        process.wait(20)


def _ready(log: Path) -> str:
    text = log.read_text()
    match = re.search(r'msg="Listening on" address=(\S+)', text)
    return f"http://{match[1]}" if match and "ready to receive web requests" in text else ""


async def test_six_hours_come_with_their_gap_and_every_series_as_what_it_is(url: str) -> None:
    told = await Prometheus().history(url, NODE, (), cluster=CLUSTER, minutes=HOURS * 60, now=END)
    assert (told.source, told.step, told.until) == (PROMETHEUS, 60.0, END)
    found = {(one.device, one.name): one for one in told.series}
    cpu = found[None, "cpu"].values
    # The first of 361 minutes lies before the first of 360 points.
    assert cpu[:3] == (1.0, 2.0, 3.0)
    assert cpu[-1] == (HOURS * 60) % 100
    assert _gap(cpu) == _gap(found["GPU-1", "busy"].values)
    assert found["GPU-1", "busy"].values[0] == 50.0
    assert found["GPU-1", "power"].values[-1] == 310.0, "of two the highest"
    assert found["GPU-1", "work"].made_of == (SM_ACTIVE, POWER)
    assert {value for value in found["GPU-1", "work"].values if value is not None} == {25.0}
    assert not any(found[None, "load"].values), "another node's, and another cluster's"
    assert ("GPU-1", "temperature") not in found


def _gap(values: Values) -> tuple[int, int]:
    """Return where a gap begins, and how long it is.

    Blocks made of a file carry no mark of where a series ends, so Prometheus repeats the last
    sample for its five minutes; a scrape would have left such a mark.
    """
    absent = [index for index, value in enumerate(values) if value is None]
    assert absent == list(range(absent[0], absent[-1] + 1))
    assert GAP.start <= absent[0] <= GAP.start + 5
    assert absent[-1] == GAP.stop - 2
    return absent[0], len(absent)


async def test_a_question_that_is_refused_is_told_in_prometheus_words(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ranges._OF_NODES, "cpu", "llmgw_node_cpu(%s")
    with pytest.raises(Refused, match=r"Prometheus says: .*parse error"):
        await Prometheus().history(url, NODE, ("cpu",), cluster=CLUSTER, minutes=90, now=END)
