"""What every test shares."""

import os

import pytest
from hypothesis import settings

from tests.fakes.clock import FakeClock

for _name in ("LLMGW_CONTEXT", "LLMGW_SERVER", "LLMGW_TOKEN", "LLMGW_TOKEN_FILE"):
    os.environ.pop(_name, None)

# Files that tests write are made as on a plain server: a file that others may change is refused.
os.umask(0o022)

# Properties look elsewhere in each run. A busy machine must not fail them, hence no deadline; the
# whole unit set takes seconds. `pytest --hypothesis-profile=thorough` looks longer.
settings.register_profile("quick", max_examples=30, deadline=None)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile("quick")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
