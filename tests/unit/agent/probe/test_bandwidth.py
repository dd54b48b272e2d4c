"""What is measured of a machine's memory bandwidth, and when."""

import asyncio
from pathlib import Path

import pytest

from llmgw.base.errors import LlmgwError, TimedOut, Unreadable
from llmgw.model.node import Heartbeat, Host, Inventory
from llmgw.model.record import Record
from llmgw_agent.parse.cpu_cache import Cache
from llmgw_agent.probe.bandwidth import BandwidthProbe, plan
from llmgw_agent.probe.bandwidth_request import MeasureBandwidth, MeasuredBandwidth
from tests.fakes.clock import FakeClock, settle
from tests.fakes.helper import FakeHelper
from tests.fakes.machine import MemoryFiles

MIB, GIB = 1 << 20, 1 << 30
MEASURED = MeasuredBandwidth(rate=34.25e9, core_rate=12.04e9)


def files(available_kb: int = 16 << 20) -> MemoryFiles:
    found = MemoryFiles()
    text = f"MemTotal: {available_kb * 2} kB\nMemAvailable: {available_kb} kB\n"
    found.content[Path("/proc/meminfo")] = text.encode()
    cache = Path("/sys/devices/system/cpu/cpu0/cache/index3")
    found.content[cache / "size"] = b"32768K\n"
    found.content[cache / "shared_cpu_list"] = b"0-1\n"
    return found


async def read(probe: BandwidthProbe, clock: FakeClock) -> str:
    reading = asyncio.ensure_future(probe.read())
    await clock.advance(5)
    return await reading


async def test_it_is_measured_once_and_told_for_ever(clock: FakeClock):
    helper = FakeHelper(lambda _request: MEASURED)
    probe = BandwidthProbe(files(), helper, clock, cpus=(0, 1))
    assert probe.late
    assert probe.onto_heartbeat(Heartbeat(sequence=1)) == Heartbeat(sequence=1)
    said = await read(probe, clock)
    assert said == "memory is read at 34.2 GB/s, 12.0 GB/s on one core"
    assert helper.closed
    await clock.advance(86_400)
    assert await probe.read() == said
    assert len(helper.asked) == 1
    heartbeat = probe.onto_heartbeat(Heartbeat(sequence=2))
    assert (heartbeat.mem_bandwidth_gbs, heartbeat.mem_bandwidth_core_gbs) == (34.2, 12.0)
    inventory = probe.onto_inventory(Inventory(host=Host(hostname="n")))
    assert inventory.host == Host(hostname="n", mem_bandwidth_gbs=34.2, mem_bandwidth_core_gbs=12.0)


async def test_nothing_is_measured_while_the_agent_registers(clock: FakeClock):
    helper = FakeHelper(lambda _request: MEASURED)
    probe = BandwidthProbe(files(), helper, clock, cpus=(0,))
    reading = asyncio.ensure_future(probe.read())
    await clock.advance(4.9)
    assert helper.asked == []
    await clock.advance(0.1)
    await settle()
    assert len(helper.asked) == 1
    await reading


async def test_a_measurement_that_failed_is_tried_again_later_and_leaves_no_figure(clock):
    answers: list[Record | LlmgwError] = [TimedOut("no answer within 30 s"), MEASURED]
    helper = FakeHelper(lambda _request: answers.pop(0))
    probe = BandwidthProbe(files(), helper, clock, cpus=(0,))
    with pytest.raises(TimedOut):
        await read(probe, clock)
    assert helper.closed
    assert probe.onto_heartbeat(Heartbeat(sequence=1)).mem_bandwidth_gbs is None
    assert probe.period == 600.0
    await probe.read()
    assert probe.onto_heartbeat(Heartbeat(sequence=1)).mem_bandwidth_gbs == 34.2
    assert probe.period > 10_000


async def test_a_machine_short_of_memory_is_not_measured(clock):
    helper = FakeHelper(lambda _request: MEASURED)
    probe = BandwidthProbe(files(available_kb=100 * 1024), helper, clock, cpus=(0, 1))
    assert await read(probe, clock) == "too little memory is free to measure its bandwidth"
    assert helper.asked == []
    assert probe.onto_heartbeat(Heartbeat(sequence=1)).mem_bandwidth_gbs is None


async def test_a_kernel_that_does_not_say_what_is_available_is_not_measured(clock):
    found = files()
    found.content[Path("/proc/meminfo")] = b"MemTotal: 1000000 kB\n"
    probe = BandwidthProbe(found, FakeHelper(lambda _request: MEASURED), clock, cpus=(0,))
    assert "too little" in await read(probe, clock)
    found.content[Path("/proc/meminfo")] = b"no memory here"
    with pytest.raises(Unreadable):
        await probe.read()


def test_every_processor_reads_a_share_past_its_part_of_the_cache():
    # Two processors share 96 MiB: 48 each, of which a share is four times as much.
    assert plan(16 * GIB, (0, 1), Cache(size_bytes=96 * MIB, cpus=2)) == MeasureBandwidth(
        cpus=(0, 1), share_bytes=192 * MIB, core_bytes=384 * MIB, passes=4
    )


def test_a_share_takes_long_enough_to_read_however_small_the_cache_is():
    assert plan(16 * GIB, (0, 1), Cache(size_bytes=32 * MIB, cpus=2)) == MeasureBandwidth(
        cpus=(0, 1), share_bytes=128 * MIB, core_bytes=128 * MIB, passes=4
    )


def test_at_most_a_tenth_of_what_is_available_is_used_whatever_the_cache_is():
    cache = Cache(size_bytes=32 * MIB, cpus=2)
    found = plan(1600 * MIB, (0, 1), cache)
    assert found is not None
    assert found.share_bytes + max(found.share_bytes, found.core_bytes) <= 160 * MIB
    assert (found.share_bytes, found.core_bytes) == (80 * MIB, 80 * MIB)


def test_what_fits_the_caches_is_not_measured_alone_or_at_all():
    cache = Cache(size_bytes=32 * MIB, cpus=2)
    # A tenth is 80 MiB: 40 each are past 16, and 40 alone are not past 32.
    assert plan(800 * MIB, (0, 1), cache) == MeasureBandwidth(
        cpus=(0, 1), share_bytes=40 * MIB, core_bytes=0, passes=4
    )
    assert plan(600 * MIB, (0, 1), cache) is None


def test_a_cache_of_one_processor_is_past_with_a_larger_share_up_to_a_bound():
    found = plan(64 * GIB, (0,), Cache(size_bytes=96 * MIB, cpus=8))
    assert found is not None
    assert (found.share_bytes, found.core_bytes) == (256 * MIB, 384 * MIB)
    # A virtual machine may see the whole cache of its host: the bound grows with it.
    found = plan(64 * GIB, (0,), Cache(size_bytes=384 * MIB, cpus=1))
    assert found is not None
    assert (found.share_bytes, found.core_bytes) == (768 * MIB, 768 * MIB)


def test_a_machine_of_very_many_processors_has_workers_on_a_part_of_them_spread_over_all():
    found = plan(2048 * GIB, tuple(range(768)), None)
    assert found is not None
    assert found.cpus == tuple(range(0, 768, 3))
    assert found.share_bytes == 128 * MIB
