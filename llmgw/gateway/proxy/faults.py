"""Faults of the gateway's own: one costs the request that met it, and nothing else.

A fault is an exception that nobody foresaw. Whoever serves many at once catches it for each of them
alone, which is the one place besides the tops of processes where everything is caught.
"""

from llmgw.base.log import get
from llmgw.gateway.refusals import Refusal

log = get(__name__)

_WORDS = "the gateway met a fault of its own with this request; the log of the gateway has it"
_told: set[tuple[str, int, str]] = set()
"""Places in the code and kinds of faults that were logged: a client can bring one on at will."""


def note(error: Exception, doing: str) -> Refusal:
    """Log a fault, the first at its place in the code, and return what its client is told.

    Args:
        error: what was raised.
        doing: what the gateway was about to do.
    """
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    file, line = (at.tb_frame.f_code.co_filename, at.tb_lineno) if at is not None else ("", 0)
    seen = file, line, type(error).__name__
    if seen not in _told:
        _told.add(seen)
        log.error("a fault of the gateway's own", doing=doing, exc_info=error)
    return Refusal("internal", _WORDS)
