"""Every alert that llmgw ships."""

from llmgw.observability.alert import Alert, Group
from llmgw.observability.alerts import control, devices, fabric, health, nodes, traffic

GROUPS: tuple[Group, ...] = (
    health.GROUP,
    devices.GROUP,
    nodes.GROUP,
    fabric.GROUP,
    traffic.GROUP,
    control.GROUP,
)

ALERTS: tuple[Alert, ...] = tuple(alert for group in GROUPS for alert in group.alerts)
