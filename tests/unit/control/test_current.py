"""What of a heartbeat still counts: each measurement is as old as its source says."""

import msgspec
import pytest

from llmgw.control.current import OLD_SECONDS, READ_BY, current
from llmgw.control.history import History
from llmgw.model.node import Heartbeat, ProbeState, Sample
from llmgw_agent.probe.cpu import CpuProbe
from llmgw_agent.probe.disks import DisksProbe
from llmgw_agent.probe.memory import MemoryProbe
from llmgw_agent.probe.ports import PortsProbe
from llmgw_agent.probe.sensors import SensorsProbe
from llmgw_agent.probe.shards import ShardsProbe

AT = 1_800_000_000.0
BEAT = Heartbeat(sequence=1, cpus=4, cpu_percent=50.0, memory_bytes=8, sensors=())


def of(*probes: ProbeState) -> Heartbeat:
    return msgspec.structs.replace(BEAT, probes=probes)


def test_sources_and_fields_are_named_as_agents_name_them() -> None:
    probes = (CpuProbe, MemoryProbe, DisksProbe, ShardsProbe, SensorsProbe, PortsProbe)
    assert {one.name for one in probes} == READ_BY.keys()
    fields = [field for each in READ_BY.values() for field in each]
    assert set(fields) <= set(Heartbeat.__struct_fields__)
    assert len(set(fields)) == len(fields)


@pytest.mark.parametrize(
    ("probe", "beat", "is_old"), [(30, 30, False), (30, 31, True), (0, 61, True)]
)
def test_the_age_of_source_and_heartbeat_together_counts(
    probe: float, beat: float, is_old: bool
) -> None:
    said = of(ProbeState(name="cpu", age=probe), ProbeState(name="memory", age=0.0))
    found = current(said, beat)
    if beat > OLD_SECONDS:
        assert found is None
    else:
        assert found is not None
        assert (found.cpu_percent is None) == is_old
        assert found.memory_bytes == 8


def test_what_has_no_age_is_as_old_as_its_heartbeat() -> None:
    for probes in ((), (ProbeState(name="cpu"),), (ProbeState(name="unheard of", age=900.0),)):
        said = of(*probes)
        assert current(said, OLD_SECONDS) is said


def test_an_hour_s_history_keeps_nothing_that_is_old() -> None:
    history = History()
    history.begin(7, AT)
    history.keep(Sample(id="n", at=AT - 10, heartbeat=of(ProbeState(name="cpu", age=51.0))))
    history.keep(Sample(id="m", at=AT - 10, heartbeat=of(ProbeState(name="cpu", age=50.0))))
    last = {
        node: next(one.values[-1] for one in history.of(node) if one.name == "cpu")
        for node in ("n", "m")
    }
    assert last == {"n": None, "m": 50.0}
