"""`llmgw agent --look`: what an agent would report, and nothing is left behind by it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from llmgw_agent.config import AgentConfig
from llmgw_agent.look import look as look_here
from llmgw_agent.sources import Directories
from tests.agents import python_path
from tests.fakes.nvidia_smi import EXIT, H100, HANG, Fault, StubNvidiaSmi


def test_a_look_prints_what_an_agent_would_report_and_changes_nothing(tmp_path: Path):
    tool = StubNvidiaSmi(tmp_path / "cards", H100)
    home = tmp_path / "home"
    seen = look(tool, home)
    assert len(seen["inventory"]["devices"]) == 8
    assert seen["inventory"]["host"]["cpus"] == os.cpu_count()
    assert seen["heartbeat"]["cpu_percent"] is not None
    assert {probe["name"] for probe in seen["heartbeat"]["probes"]} >= {"host", "gpus", "disks"}
    ages = [one["age"] for one in seen["heartbeat"]["probes"] if one["age"] is not None]
    assert ages == [round(age, 1) for age in ages]
    assert seen["said"]["gpus"] == "8 NVIDIA cards"
    assert not home.exists()


def test_a_probe_that_fails_is_told_in_what_is_printed_and_nothing_is_logged(tmp_path: Path):
    tool = StubNvidiaSmi(tmp_path / "cards", H100)
    tool.fail(Fault(how=EXIT, kind="topo", text="something went wrong\n"))
    seen = look(tool, tmp_path / "home")
    (failed,) = [one for one in seen["heartbeat"]["probes"] if one["name"] == "topology"]
    assert "something went wrong" in failed["error"]
    assert "topology" not in seen["said"]


async def test_a_look_ends_and_says_which_probe_did_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tool = StubNvidiaSmi(tmp_path / "cards", H100)
    tool.fail(Fault(how=HANG))
    monkeypatch.setenv("PATH", f"{tool.bin}:/usr/bin:/bin")
    places = Directories(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    seen = await look_here(AgentConfig(measure_bandwidth=False), places, os.environ, longest=2.0)
    (cards,) = [one for one in seen.heartbeat.probes or () if one.name == "gpus"]
    assert cards.error == "no answer within 2 s"
    assert seen.inventory.host is not None
    assert seen.inventory.host.cpus == os.cpu_count()


def look(tool: StubNvidiaSmi, home: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "llmgw", "agent", "--look"],
        env={
            "PATH": f"{tool.bin}:/usr/bin:/bin",
            "PYTHONPATH": python_path(),
            "HOME": str(home),
            "XDG_STATE_HOME": str(home / "state"),
            "LLMGW_STATE_DIR": str(home / "agent"),
            "LLMGW_MEASURE_BANDWIDTH": "false",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)
