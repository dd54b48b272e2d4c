"""The own address is the source of the route to a control plane; nothing is sent to find it."""

import asyncio

import pytest

from llmgw.base.clock import SystemClock
from llmgw_agent.host.address import own_address
from tests.fakes.clock import FakeClock, settle


@pytest.mark.parametrize(
    ("control_plane", "address"), [("127.0.0.1:1", "127.0.0.1"), ("localhost:7442", "127.0.0.1")]
)
async def test_a_control_plane_on_this_machine_is_reached_from_loopback(control_plane, address):
    assert await own_address(control_plane, SystemClock()) in (address, "::1")


async def test_a_name_that_does_not_resolve_is_no_address():
    assert await own_address("nowhere.invalid:7442", SystemClock()) is None


async def test_a_name_service_that_hangs_is_not_waited_for(clock: FakeClock, monkeypatch):
    async def never(*_args: object, **_more: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
    asked = asyncio.ensure_future(own_address("head:7442", clock))
    await settle()
    await clock.advance(5)
    assert asked.done()
    assert asked.result() is None
