"""What is wrong with a device, as a reason not to place on it and as a fact: one cause once.

Agents give reasons, `a row waits to be remapped: reset the card`; readings tell the same without
what to do about it. Who makes sentences of either takes the words from here.
"""

import re
from collections.abc import Mapping

ROW_FAILED = "row remapping failed"
ROW_WAITS = "a row waits to be remapped"
PAGE_WAITS = "a page waits to be retired"
ASKS_FOR: Mapping[str, str] = {
    "reset": "the driver asks for a reset of the card",
    "reboot": "the driver asks for a reboot of the machine",
    "drain": "the driver asks to drain the card and to reset it",
}
"""By the driver's recovery action."""

_ERROR = re.compile(r"XID [0-9]+\b")


def driver_error(words: str) -> str | None:
    """Return `XID 79` of what tells of a driver error, `XID 79 once, …`; None of anything else."""
    found = _ERROR.match(words)
    return None if found is None else found[0]


def same(reason: str, words: str) -> bool:
    """Say whether a reason not to place on a device and a fact about it have one cause."""
    error = driver_error(words)
    if error is not None:
        return re.search(rf"\b{error}\b", reason) is not None
    return reason == words or reason.startswith(f"{words}:")
