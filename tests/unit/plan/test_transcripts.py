"""Scripted fleets against their transcripts in snapshots/plan.

`UPDATE_SNAPSHOTS=1 pytest tests/unit/plan` writes them anew; what changed is then read in the diff.
"""

import os
from pathlib import Path

import pytest

from tests.unit.plan.fleet import Script
from tests.unit.plan.giveway_scripts import SCRIPTS as GIVEWAY
from tests.unit.plan.lifecycle_scripts import SCRIPTS as LIFECYCLE
from tests.unit.plan.placement_scripts import SCRIPTS as PLACEMENT
from tests.unit.plan.scripts import SCRIPTS as FLEETS
from tests.unit.plan.torn_scripts import SCRIPTS as TORN

SCRIPTS = (*FLEETS, *PLACEMENT, *LIFECYCLE, *GIVEWAY, *TORN)

SNAPSHOTS = Path(__file__).resolve().parents[3] / "snapshots" / "plan"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_a_scripted_fleet_is_decided_as_its_transcript_says(script: Script):
    told = "\n".join(script().told) + "\n"
    path = SNAPSHOTS / f"{script.__name__}.txt"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(told)
    assert told == path.read_text()


def test_every_transcript_has_a_script():
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} == {one.__name__ for one in SCRIPTS}
