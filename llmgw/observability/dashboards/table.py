"""Every dashboard that llmgw ships."""

from llmgw.observability.dashboards import fabric, fleet, gpu, node, traffic
from llmgw.observability.panel import Dashboard

DASHBOARDS: tuple[Dashboard, ...] = (
    fleet.DASHBOARD,
    node.DASHBOARD,
    gpu.DASHBOARD,
    fabric.DASHBOARD,
    traffic.DASHBOARD,
)
