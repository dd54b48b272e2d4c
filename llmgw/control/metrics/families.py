"""Every family that llmgw exports. What is not in this table is not exported."""

from llmgw.control.metrics import (
    control,
    devices,
    endpoints,
    fabric,
    fleet,
    giveway,
    health,
    held,
    machines,
    pcie,
    probes,
    traffic,
)
from llmgw.control.metrics.family import Family, FleetFamily, NodeFamily

FAMILIES: tuple[Family, ...] = (
    *control.FAMILIES,
    *fleet.FAMILIES,
    *giveway.FAMILIES,
    *machines.FAMILIES,
    *probes.FAMILIES,
    *devices.FAMILIES,
    *held.FAMILIES,
    *health.FAMILIES,
    *pcie.FAMILIES,
    *fabric.FAMILIES,
    *traffic.FAMILIES,
    *endpoints.FAMILIES,
)

NODE_FAMILIES = tuple(one for one in FAMILIES if isinstance(one, NodeFamily))
FLEET_FAMILIES = tuple(one for one in FAMILIES if isinstance(one, FleetFamily))
