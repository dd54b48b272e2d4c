"""The seeds of this run: drawn once, for all processes that the tests are spread over, and told."""

import os
import random

import pytest

_VARIABLE = "LLMGW_SIM_FIRST_SEED"


def fresh_seed() -> int:
    """Return the first seed of this run; set the variable to have those of another run again."""
    return int(os.environ[_VARIABLE])


def pytest_configure() -> None:
    os.environ.setdefault(_VARIABLE, str(random.SystemRandom().randrange(1_000_000)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"fresh seeds from {fresh_seed()} on ({_VARIABLE})")
