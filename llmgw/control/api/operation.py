"""What an operation of the admin API is: a row of the table, and the call that its handler gets.

A handler's signature is its contract: `body` and `query` are named there with their types, and what
it returns is what is answered. So types are checked where they are used and written down once.
"""

import inspect
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Generic, TypeVar

from llmgw.control.metrics.collector import Scrapes
from llmgw.control.metrics.packing import Text
from llmgw.control.plane import Plane
from llmgw.model.keys import READ
from llmgw.model.record import Problem

PREFIX = "/api/v1"
ADMIN_LISTENER = "admin"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `name` is what the audit calls the actor."""

    name: str
    role: str


@dataclass(frozen=True, slots=True)
class Call:
    """One request after it was let in: its token is known and its role suffices."""

    plane: Plane
    caller: Caller
    path: Mapping[str, str]
    describe: Callable[[], bytes]
    """Returns this API's own description, which is made from the table of all operations."""
    scrapes: Scrapes
    """Makes what Prometheus scrapes; all requests share one."""
    if_match: int | None = None
    """The version in If-Match; None: whatever is there."""


@dataclass(frozen=True, slots=True)
class Sent(Generic[T]):
    """An answer that goes on: server-sent events until either side ends it."""

    events: AsyncIterator[T]
    close: Callable[[], None] | None = None
    """Called once when it ends, also when no event was ever asked for."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """An answer that is not JSON and may be long: it is sent piece by piece."""

    body: Text
    media_type: str
    ended: Callable[[], None]
    """Called once when it was sent, or is not sent any further."""


@dataclass(frozen=True, slots=True)
class Raw:
    """An answer that is JSON already."""

    body: bytes


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the table.

    `role` None: no token is needed. `open_on_loopback`: nor when every listener is loopback.
    """

    method: str
    path: str
    role: str | None
    handler: Callable[..., Awaitable[object]]
    summary: str
    status: int = 200
    open_on_loopback: bool = False
    listener: str = ADMIN_LISTENER
    versioned: bool = False
    """It replaces what somebody read: If-Match has to say which version that was, or `*`."""
    meaning: Callable[[Any], tuple[Problem, ...]] | None = None
    """Judges the meaning of a body that has the wrong shape: whoever sent it is told all at once.
    Of one that has the right shape the handler judges it."""

    @property
    def name(self) -> str:
        """Return a name that is unique in the table."""
        return self.handler.__name__

    @property
    def changes(self) -> bool:
        """Say whether it changes anything: whoever may only read asks for nothing of it."""
        return self.method != "GET" and self.role != READ

    @property
    def body(self) -> Any:  # noqa: ANN401  a type expression, which has no narrower type
        """Return the type of the request's body; None when it takes none."""
        return self._hints().get("body")

    @property
    def query(self) -> Any:  # noqa: ANN401
        """Return the Struct of the query's parameters; None when it takes none."""
        return self._hints().get("query")

    @property
    def answer(self) -> Any:  # noqa: ANN401
        """Return the type of the answer, or of one event; None when there is no body."""
        said = self._hints()["return"]
        if typing.get_origin(said) is Sent:
            said = typing.get_args(said)[0]
        return None if said is NoneType else said

    @property
    def streams(self) -> bool:
        """Say whether it answers with server-sent events."""
        return typing.get_origin(self._hints()["return"]) is Sent

    def _hints(self) -> dict[str, Any]:
        hints = typing.get_type_hints(self.handler)
        named = inspect.signature(self.handler).parameters
        return {name: hint for name, hint in hints.items() if name in named or name == "return"}
