"""`ctl status`: whether it serves, as users would find it."""

from typing import Any

import pytest

from llmgw.cli.ctl.status import lines

UP: dict[str, Any] = {"id": "gw-1", "url": "http://gw-1:7440", "connected": True}
AWAY: dict[str, Any] = {**UP, "connected": False}


STATUS: dict[str, Any] = {
    "cluster": "lab",
    "server": "head-1",
    "leader": True,
    "version": "0.1.0",
    "term": 1,
    "stopped": False,
    "nodes": {"ready": 1},
    "replicas": {},
    "gateways": [],
    "models": [],
    "problems": [],
}


def model(ready: int, wanted: int = 1) -> dict[str, Any]:
    return {"name": "small", "ready": ready, "wanted": wanted, "reason": None}


@pytest.mark.parametrize(
    ("gateways", "models", "stopped", "words"),
    [
        ([UP], [model(1)], False, "yes: 1 of 1 model can answer"),
        ([UP], [model(0), model(1)], False, "yes: 1 of 2 models can answer"),
        ([UP], [model(0)], False, "no: 0 of 1 model can answer"),
        ([UP], [model(0, wanted=0)], False, "nothing: no model is wanted"),
        ([AWAY], [model(1)], False, "no: no gateway is connected"),
        ([], [model(1)], False, "no: no gateway is connected"),
        ([UP], [model(1)], True, "no: stopped;"),
    ],
)
def test_it_serves_only_when_a_reply_could_come(
    gateways: list[dict[str, Any]], models: list[dict[str, Any]], stopped: bool, words: str
) -> None:
    said = lines({**STATUS, "stopped": stopped, "gateways": gateways, "models": models})
    serving = next(line for line in said if line.startswith("serving"))
    assert words in serving


def test_devices_are_counted_by_class() -> None:
    classes = {"a100-40g": {"free": 8}, "h100-80g": {"away": 8, "free": 2, "held": 6}}
    said = lines({**STATUS, "devices": classes})
    assert "devices        8 a100-40g: 8 free; 16 h100-80g: 8 away, 2 free, 6 held" in said
    assert not any(line.startswith("devices") for line in lines(STATUS))
