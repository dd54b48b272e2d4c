"""How a node was: the question, and its answer as a record."""

from collections.abc import Sequence

import msgspec

from llmgw.base.errors import Unreadable
from llmgw.client.interface import Decoded
from llmgw.model.history import HOUR, NodeHistory


def path_of(node: str) -> str:
    """Return where a node's history is."""
    return f"/nodes/{node}/history"


def query_of(series: Sequence[str] = (), minutes: int = HOUR) -> dict[str, object]:
    """Return what is asked there: which series, empty for all, of the last minutes."""
    return {"series": tuple(series) or None, "minutes": minutes}


def read(answer: Decoded) -> NodeHistory:
    """Return an answer as a record.

    Raises:
        Unreadable: it has another shape: the control plane's version is another.
    """
    try:
        return msgspec.convert(answer, NodeHistory)
    except msgspec.ValidationError as error:
        raise Unreadable(
            f"history: the control plane's answer can't be read: {error}",
            hint="compare `llmgw version` here and on the control plane",
        ) from error
