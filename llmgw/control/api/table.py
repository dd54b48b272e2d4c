"""Every operation of the admin API. What is not in this table is not served."""

from llmgw.control.api import (
    following,
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
    settings,
    status,
    tokens,
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
    *jobs.OPERATIONS,
    *keys.OPERATIONS,
    *settings.OPERATIONS,
    *tokens.OPERATIONS,
    *happened.OPERATIONS,
    *hardware.OPERATIONS,
    *following.OPERATIONS,
    *health.OPERATIONS,
)
