import pytest

from tests.fakes.clock import FakeClock
from tests.unit.agent.install.engines import Node


@pytest.fixture
def node(clock: FakeClock) -> Node:
    return Node(clock)
