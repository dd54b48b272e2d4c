"""`llmgw ctl model serve` on a real cluster: the demo's model on llama-server, and what fails."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from llmgw.local import demo_model
from llmgw.local.cluster import LocalCluster, kill
from llmgw.model.catalog import LLAMACPP, Model, PathSource, Profile
from llmgw.model.written import to_yaml
from tests.real.cluster.conftest import Make
from tests.real.cluster.watching import ctl, ready
from tests.waiting import wait_for

pytestmark = pytest.mark.real

STEPS = ("plan", "check source", "fetch", "catalog", "place", "ready")


def serve(cluster: LocalCluster, *argv: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "llmgw", "ctl", "model", "serve", *argv],
        env={
            **os.environ,
            "LLMGW_SERVER": f"http://{cluster.admin}",
            "LLMGW_TOKEN_FILE": str(cluster.token_file),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def written(directory: Path, model: Model) -> str:
    file = directory / f"{model.name}.yaml"
    file.write_text(to_yaml(model))
    return str(file)


def jobs(cluster: LocalCluster) -> dict[str, str]:
    found = json.loads(ctl(cluster, "jobs", "-o", "json"))
    return {job["subject"]: job["state"] for job in found}


def test_a_real_model_is_served_by_a_job_and_what_cannot_be_had_is_not(
    make_cluster: Make, tmp_path: Path
) -> None:
    cluster = make_cluster()
    cluster.start(agents=1)
    served = serve(cluster, written(tmp_path, demo_model.real()))
    out, err = served.communicate(timeout=240)
    assert served.returncode == 0, out + err
    lines = out.splitlines()
    assert lines[-1] == "gemma3-270m is served"
    ends = [line for line in lines if ": done" in line or ": skipped" in line]
    assert [line.partition(":")[0] for line in ends] == list(STEPS)
    (replica,) = ready(cluster, "gemma3-270m", timeout=1)
    assert replica["engine"] == LLAMACPP

    gone = Model(
        name="gone",
        source=PathSource(path=str(tmp_path / "nowhere.gguf")),
        profiles=(Profile(engine=LLAMACPP, min_memory_gb=0.5),),
    )
    failed = serve(cluster, written(tmp_path, gone))
    out, err = failed.communicate(timeout=60)
    assert failed.returncode == 1, out + err
    assert "nowhere.gguf: no such file on this node" in out.splitlines()[-1]
    assert "llmgw ctl jobs retry" in err
    names = [entry["model"]["name"] for entry in cluster.client().get("/models")]
    assert names == ["gemma3-270m"]
    assert jobs(cluster) == {"gemma3-270m": "done", "gone": "failed"}


def test_a_job_goes_on_through_interrupts_and_the_death_of_its_control_plane(
    make_cluster: Make, tmp_path: Path
) -> None:
    cluster = make_cluster()
    cluster.start(agents=1)
    slow = demo_model.simulated("slow", arguments=("--load-time", "8"))
    served = serve(cluster, written(tmp_path, slow))
    wait_for(lambda: jobs(cluster).get("slow") == "running", 20, what="the job runs")
    served.send_signal(signal.SIGINT)
    _, err = served.communicate(timeout=20)
    assert served.returncode == 130, err
    assert "goes on; follow it again: llmgw ctl jobs follow job-" in err
    job = next(one for one in cluster.client().get("/jobs") if one["subject"] == "slow")
    assert job["state"] == "running"
    kill(cluster.owner.services["server"])
    cluster.start_server()
    followed = subprocess.run(
        [sys.executable, "-m", "llmgw", "ctl", "jobs", "follow", job["id"]],
        env={
            **os.environ,
            "LLMGW_SERVER": f"http://{cluster.admin}",
            "LLMGW_TOKEN_FILE": str(cluster.token_file),
        },
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert followed.returncode == 0, followed.stdout + followed.stderr
    assert followed.stdout.splitlines()[-1] == "slow is served"
