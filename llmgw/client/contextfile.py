"""The strict reader of a contexts' file that a person wrote."""

import msgspec

from llmgw.model.record import Written
from llmgw.model.written import read_yaml


class WrittenContext(Written, frozen=True, kw_only=True):
    """One control plane and where its token lies."""

    server: str
    token_file: str | None = None


class WrittenContexts(Written, frozen=True, kw_only=True):
    """The file."""

    current: str | None = None
    contexts: dict[str, WrittenContext] = msgspec.field(default_factory=dict)


def read_strict(text: str, where: str) -> WrittenContexts:
    """Return the contexts of a YAML text.

    Raises:
        Unreadable: it is not YAML or not of that shape; with the path and the nearest name.
    """
    return read_yaml(text, WrittenContexts, where)
