"""How often the product looks at what does not change here, or waits for what would take long.

These are the product's own constants, put back when a run is over: a look costs, and nothing that
probes read changes; an engine that hangs is to be found within a calm.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llmgw.control.tasks import engine_loads, engines, expire, quotas, traffic
from llmgw.gateway import places, service, worker
from llmgw.link import connect, listen
from llmgw.link.guard import CONFIG
from llmgw.plan import giveway
from llmgw_agent.engines import programs
from llmgw_agent.probe import card_use, cards, ports
from llmgw_agent.probe.cpu import CpuProbe
from llmgw_agent.probe.disks import DisksProbe
from llmgw_agent.probe.memory import MemoryProbe
from llmgw_agent.probe.shards import ShardsProbe
from llmgw_agent.supervise import life, pulse
from tests.sim.gateway import PipeChannel

_KEEPALIVE = dataclasses.replace(CONFIG, _keepalive_time=60.0)
"""HTTP/2's own pings keep firewalls from forgetting a connection, and nothing else."""

_PACES: tuple[tuple[Any, str, Any], ...] = (
    (MemoryProbe, "period", 50.0),
    (CpuProbe, "period", 50.0),
    (DisksProbe, "period", 50.0),
    (ShardsProbe, "period", 30.0),
    (cards, "_WITH_CARDS", 50.0),
    (card_use, "_WITH_CARDS", 50.0),
    (ports, "_WITH_PORTS", 50.0),
    (ports, "_WITHOUT_PORTS", 50.0),
    (service, "COUNTS_PERIOD", 1.0),
    (service, "TABLE_PERIOD", 5.0),
    (worker, "PERIOD", 1.0),
    (places, "Channel", PipeChannel),
    (service, "LOOK", 5.0),
    (giveway, "IDLE", 20.0),
    (programs, "_CONVERGE_PERIOD", 300.0),
    (programs, "LOOK_PERIOD", 300.0),
    (life, "_LOOK", 5.0),
    (pulse, "PERIOD", 15.0),
    (pulse, "STILL_FOR", 40.0),
    (pulse, "CANARY_EVERY", 20.0),
    (pulse, "CANARY_LIMIT", 20.0),
    (engines, "EVERY", 5.0),
    (expire, "EVERY", 5.0),
    (traffic, "PERIOD", 10.0),
    (quotas, "PERIOD", 5.0),
    (engine_loads, "PERIOD", 2.0),
    (connect, "CONFIG", _KEEPALIVE),
    (listen, "CONFIG", _KEEPALIVE),
)
"""Seconds; a probe's reading counts for sixty."""


@contextmanager
def paced() -> Iterator[None]:
    """Set the constants within the block."""
    before = [getattr(owner, name) for owner, name, _ in _PACES]
    for owner, name, value in _PACES:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name, _), value in zip(_PACES, before, strict=True):
            setattr(owner, name, value)
