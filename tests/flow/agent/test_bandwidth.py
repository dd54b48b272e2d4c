"""The helper that measures memory bandwidth, with shares so small that it takes no time."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from llmgw.base.errors import Unreachable, Unreadable
from llmgw.base.system import SystemProcesses
from llmgw_agent.host.helper import HelperProcess
from llmgw_agent.probe.bandwidth import MODULE
from llmgw_agent.probe.bandwidth_request import MeasureBandwidth, MeasuredBandwidth
from tests.waiting import wait_until

ENVIRON = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
CPUS = tuple(sorted(os.sched_getaffinity(0)))
TINY = MeasureBandwidth(cpus=CPUS, share_bytes=1 << 16, core_bytes=1 << 17, passes=2)


class Helper(HelperProcess):
    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid


@pytest.fixture
async def helper():
    process = Helper((sys.executable, "-m", MODULE), environ=ENVIRON)
    yield process
    await process.close()


async def measure(helper: Helper, request: MeasureBandwidth) -> MeasuredBandwidth:
    return await helper.ask(request, MeasuredBandwidth, silence=30)


async def test_every_processor_has_a_worker_and_none_is_left_afterwards(helper):
    measured = await measure(helper, TINY)
    assert measured.core_rate is not None
    assert 0 < measured.core_rate <= measured.rate
    assert children(helper.pid) == []


async def test_one_core_is_not_measured_alone_where_that_was_not_asked(helper):
    request = MeasureBandwidth(cpus=CPUS[:1], share_bytes=1 << 16, core_bytes=0, passes=1)
    assert (await measure(helper, request)).core_rate is None


async def test_a_worker_that_gets_no_memory_costs_the_measurement_alone(helper):
    request = MeasureBandwidth(cpus=CPUS, share_bytes=1 << 60, core_bytes=0)
    with pytest.raises(Unreadable, match="a worker ended"):
        await measure(helper, request)
    assert children(helper.pid) == []
    assert (await measure(helper, TINY)).rate > 0


async def test_a_processor_that_may_not_be_used_is_measured_somewhere_else(helper):
    request = MeasureBandwidth(cpus=(100_000,), share_bytes=1 << 16, core_bytes=0, passes=1)
    assert (await measure(helper, request)).rate > 0


async def test_workers_end_with_a_helper_that_is_killed(helper):
    await measure(helper, TINY)
    processes, group = SystemProcesses(), helper.pid
    endless = MeasureBandwidth(cpus=CPUS, share_bytes=1 << 16, core_bytes=0, passes=1 << 20)
    asking = asyncio.ensure_future(measure(helper, endless))
    await wait_until(lambda: len(children(group)) == len(CPUS), what="workers")
    os.kill(group, signal.SIGKILL)
    with pytest.raises(Unreachable):
        await asking
    await wait_until(lambda: not processes.group_alive(group), what="workers gone")


def children(pid: int) -> list[int]:
    """Return the live children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
