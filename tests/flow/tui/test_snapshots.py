"""Every screen as text, from recorded fleets, at three sizes.

`LLMGW_UPDATE_SNAPSHOTS=1` writes them anew; look at the difference before it is kept.
"""

import os

import pytest

from llmgw_tui.widgets.loglines import LogLines
from tests.flow.tui.stage import SNAPSHOTS, Stage, staged
from tests.waiting import wait_until

SIZES = ((80, 24), (120, 40), (200, 60))
UPDATE = bool(os.environ.get("LLMGW_UPDATE_SNAPSHOTS"))
LOG = (
    "2027-01-15T07:59:58Z info  heartbeat sent sequence=100",
    "2027-01-15T07:59:59Z info  engine started replica=\x1b[31mred\x1b[0m pid=4711",
    "2027-01-15T08:00:00Z warn  \u2588 probe slow name=nvidia-smi took=2.1",
)

SCREENS = {
    "overview": ("1",),
    "nodes": ("2",),
    "node": ("2", "enter"),
    "charts": ("2", "enter", "c"),
    "condition": ("2", "enter", "end"),
    "replicas": ("3",),
    "replica": ("3", "enter"),
    "models": ("4",),
    "model": ("4", "enter"),
    "logs": ("5",),
    "traffic": ("6",),
    "keys": ("7",),
    "help": ("question_mark",),
    "palette": ("colon",),
}


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("fleet", ["empty", "cpu_starting", "cpu_serving", "gpu8", "mixed"])
async def test_screens_look_as_recorded(fleet: str, size: tuple[int, int]) -> None:
    differing: list[str] = []
    async with staged(fleet, *size) as stage:
        for node in stage.feed.fleet.topics.get("nodes", {}):
            stage.feed.logs[node, None] = list(LOG)
        for screen, keys in SCREENS.items():
            await stage.call(*keys)
            await _log_read(stage)
            name = f"{fleet}-{screen}-{size[0]}x{size[1]}.txt"
            if not _same(name, stage.text()):
                differing.append(name)
            if stage.desk.frame.over.dialog is not None:
                await stage.call("escape")
            await stage.call("1")
    assert not differing, f"these differ: {differing}; LLMGW_UPDATE_SNAPSHOTS=1 writes them anew"


async def _log_read(stage: Stage) -> None:
    """Wait until a log that shows has its lines."""
    if stage.feed.open_logs:
        body = stage.desk.view.query_one(LogLines)
        await wait_until(body.count)
        await stage.flush()


def _same(name: str, text: str) -> bool:
    path = SNAPSHOTS / name
    if UPDATE:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return True
    return path.is_file() and path.read_text(encoding="utf-8") == text


async def test_no_snapshot_is_left_over() -> None:
    sizes = [f"{width}x{height}" for width, height in SIZES]
    fleets = ("empty", "cpu_starting", "cpu_serving", "gpu8", "mixed")
    wanted = {f"{f}-{s}-{z}.txt" for f in fleets for s in SCREENS for z in sizes}
    assert {path.name for path in SNAPSHOTS.glob("*.txt")} == wanted
