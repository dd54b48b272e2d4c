"""A plane over a recorded fleet, and the application in front of it."""

import pytest
from starlette.applications import Starlette

from llmgw.control.api.app import build
from tests.fakes.clock import FakeClock
from tests.fakes.fleet_parts import NOW
from tests.fakes.fleets import cpu_serving
from tests.fakes.plane import FakePlane
from tests.fakes.plane_records import keyed_route
from tests.unit.api.asking import removable


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
async def plane(clock: FakeClock) -> FakePlane:
    plane = await FakePlane(cpu_serving(), clock).prepare()
    plane.fake_fleet.put("routes", "gemma3-270m", keyed_route("gemma3-270m", "gemma3-270m-7k2m9x"))
    return plane


@pytest.fixture
def app(plane: FakePlane) -> Starlette:
    return build(plane)


@pytest.fixture
def ids(plane: FakePlane) -> dict[str, str]:
    """Return the ids of a key and of a token that may be removed."""
    return removable(plane)
