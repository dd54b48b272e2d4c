"""What load balancers and scrapers ask; `openapi.json` beside it."""

from llmgw.control.api.operation import PREFIX, Call, Operation, Pieces, Raw
from llmgw.control.api.shapes import Alive, Leading
from llmgw.control.metrics.text import CONTENT_TYPE
from llmgw.model.keys import METRICS, READ


async def healthz(call: Call) -> Alive:
    """Say that the process answers."""
    return Alive(status="ok")


async def leader(call: Call) -> Leading:
    """Say whether this control plane leads; 503 when it does not."""
    return Leading(leader=call.plane.leader, term=call.plane.term)


async def metrics(call: Call) -> Pieces:
    """Return the whole fleet's metrics.

    Raises:
        Unreachable: too many are being sent already.
    """
    return Pieces(await call.scrapes.scrape(), CONTENT_TYPE, call.scrapes.sent)


async def openapi(call: Call) -> Raw:
    """Return the description of this API."""
    return Raw(call.describe())


OPERATIONS = (
    Operation("GET", "/healthz", None, healthz, "Whether the process answers."),
    Operation("GET", "/leader", None, leader, "Whether this control plane leads; 503 if not."),
    Operation(
        "GET",
        "/metrics",
        METRICS,
        metrics,
        "The fleet's metrics for Prometheus.",
        open_on_loopback=True,
    ),
    Operation("GET", f"{PREFIX}/openapi.json", READ, openapi, "This API as an OpenAPI document."),
)
