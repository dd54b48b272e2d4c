"""Every family that llmgw exports. What is not in this table is not exported."""

from llmgw.control.metrics import control, devices, fleet, machines, traffic
from llmgw.control.metrics.family import Family

FAMILIES: tuple[Family, ...] = (
    *control.FAMILIES,
    *fleet.FAMILIES,
    *machines.FAMILIES,
    *devices.FAMILIES,
    *traffic.FAMILIES,
)
