"""What an agent and its helper processes say to each other, apart from requests and answers.

A helper imports little: it runs as long as the agent does, and memory is what it costs.
"""

import msgspec

from llmgw.model.record import Record
from llmgw.model.shard import Progress


class Failed(Record, frozen=True, kw_only=True):
    """An error of a helper, as it travels."""

    error: str
    message: str
    hint: str | None = None


class Said(Record, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a helper: exactly one is set. `done` is the answer's own JSON."""

    progress: Progress | None = None
    done: msgspec.Raw = msgspec.Raw()
    failed: Failed | None = None
