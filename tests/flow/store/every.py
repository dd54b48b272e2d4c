"""All that every store must do, as one class: an implementation adds its `place` alone."""

from tests.flow.store.conformance import Conformance
from tests.flow.store.hardware_conformance import HardwareConformance
from tests.flow.store.jobs_conformance import JobsConformance
from tests.flow.store.lease_conformance import LeaseConformance
from tests.flow.store.traffic_conformance import TrafficConformance
from tests.flow.store.usage_conformance import UsageConformance


class EveryConformance(
    Conformance,
    HardwareConformance,
    JobsConformance,
    LeaseConformance,
    TrafficConformance,
    UsageConformance,
):
    """Give it a fixture `place`."""
