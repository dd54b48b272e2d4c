"""What the helper that asks NVML is told."""

from typing import Final

from llmgw.model.record import Record

CARDS: Final = "cards"
"""Which there are, and their readings but for processes."""

USE: Final = "use"
"""Memory and processes alone."""

LINKS: Final = "links"
"""PCIe and NVLink, and what cards say of their wear."""


class ReadCards(Record, frozen=True, kw_only=True):
    """A request: one reading of all cards."""

    part: str = CARDS
