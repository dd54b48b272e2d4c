"""What a gateway without a control plane shows of itself at `/metrics`."""

from collections.abc import Sequence

from llmgw.gateway.cells import Columns
from llmgw.gateway.exposition import page
from llmgw.gateway.health_checks import HealthChecks
from llmgw.gateway.places import Place
from llmgw.gateway.quotas import Quotas
from llmgw.gateway.table import Table


def alone_page(
    table: Table, places: Sequence[Place], columns: Columns, checks: HealthChecks, quotas: Quotas
) -> str:
    """Return the page."""
    in_flight = columns.in_flight()
    endpoints = [
        (route.model, one.replica, checks.is_up(one), in_flight.get(one.replica, 0))
        for _, route in sorted(table.routes.items())
        for one in route.endpoints
    ]
    return page(
        {place.number: tuple(place.traffic.values()) for place in places},
        endpoints,
        {place.number: place.waiting for place in places},
        quotas.over(),
    )
