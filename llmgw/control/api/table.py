"""Every operation of the admin API. What is not in this table is not served."""

from llmgw.control.api import (
    following,
    gateways,
    happened,
    hardware,
    health,
    history,
    jobs,
    keys,
    logs,
    models,
    nodes,
    plans,
    replicas,
    requests,
    settings,
    status,
    tokens,
    traffic,
)
from llmgw.control.api.operation import Operation

OPERATIONS: tuple[Operation, ...] = (
    *status.OPERATIONS,
    *nodes.OPERATIONS,
    *history.OPERATIONS,
    *logs.OPERATIONS,
    *replicas.OPERATIONS,
    *models.OPERATIONS,
    *plans.OPERATIONS,
    *gateways.OPERATIONS,
    *jobs.OPERATIONS,
    *keys.OPERATIONS,
    *traffic.OPERATIONS,
    *requests.OPERATIONS,
    *settings.OPERATIONS,
    *tokens.OPERATIONS,
    *happened.OPERATIONS,
    *hardware.OPERATIONS,
    *following.OPERATIONS,
    *health.OPERATIONS,
)
