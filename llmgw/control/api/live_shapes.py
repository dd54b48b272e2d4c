"""What the admin API takes about requests in flight and how they go. It only grows."""

from typing import Annotated, Literal

from msgspec import Meta

from llmgw.control.api.shapes import Name
from llmgw.control.rates import DETAIL, STEP
from llmgw.model.live import MOST
from llmgw.model.record import Written

WINDOW_MOST = DETAIL * STEP

IDS_CHARACTERS = 32_000
"""Of a list of ids in a query: as many as are told of at once."""

Word = Annotated[str, Meta(max_length=253)]
RequestId = Annotated[str, Meta(min_length=1, max_length=64)]


class RequestsQuery(Written, frozen=True, kw_only=True):
    """Which requests in flight; what is absent leaves nothing out.

    `ids`: with commas. `key`: an id or a name. `model`: what serves, or what was asked for.
    `state`: `queued`, `connecting`, `prefill` or `streaming`. Of more than `limit` the oldest, or
    the `newest`.
    """

    ids: Annotated[str, Meta(max_length=IDS_CHARACTERS)] = ""
    key: Word | None = None
    model: Word | None = None
    replica: Word | None = None
    node: Word | None = None
    state: Literal["queued", "connecting", "prefill", "streaming"] | None = None
    gateway: Word | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST)] = 200
    newest: bool = False


class CancelRequestsBody(Written, frozen=True, kw_only=True):
    """Requests that are to be ended, by id."""

    ids: Annotated[tuple[RequestId, ...], Meta(min_length=1, max_length=MOST)]


class FlowQuery(Written, frozen=True, kw_only=True):
    """Over how many of the last seconds."""

    window: Annotated[float, Meta(ge=STEP, le=WINDOW_MOST)] = 60.0


class FlowHistoryQuery(Written, frozen=True, kw_only=True):
    """Of which model; absent: of all together."""

    model: Name | None = None
