"""Unit tests start no process and open no connection: whatever tries is refused."""

import sys
from collections.abc import Iterator

import pytest

REFUSED = frozenset(
    {
        "os.fork",
        "os.posix_spawn",
        "socket.bind",
        "socket.connect",
        "socket.getaddrinfo",
        "subprocess.Popen",
    }
)
_running: list[str] = []


def _refuse(event: str, arguments: object) -> None:
    if _running and event in REFUSED:
        raise AssertionError(f"{_running[-1]} is a unit test and asks for {event} {arguments!r}")


# An audit hook can't be taken away again: it looks at what runs.
sys.addaudithook(_refuse)


@pytest.fixture(autouse=True)
def _alone(request: pytest.FixtureRequest) -> Iterator[None]:
    _running.append(request.node.name)
    yield
    _running.pop()
