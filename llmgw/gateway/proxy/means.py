"""What one exchange is asked to do, and what it needs of its worker to do it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from llmgw.gateway.accounting import Account
from llmgw.gateway.proxy.body import Asked
from llmgw.gateway.proxy.connecting import Done
from llmgw.gateway.proxy.deadlines import Deadlines
from llmgw.gateway.proxy.endpoints import Engine, Way
from llmgw.gateway.proxy.requests import Request
from llmgw.gateway.proxy.streams import Streams
from llmgw.gateway.refusals import Refusal
from llmgw.gateway.route.prefix import PrefixTable
from llmgw.model.gateway import GatewayConfig


class Client(Protocol):
    """Who gets the reply."""

    @property
    def deadline(self) -> float:
        """Return the monotonic seconds at which whoever serves is told that they have passed."""
        ...

    @deadline.setter
    def deadline(self, deadline: float) -> None: ...

    def write(self, data: bytes) -> None:
        """Write a part of the reply."""
        ...

    def finish(self, *, keep: bool = True) -> None:
        """The reply is written: go on, or close when the connection ends with it."""
        ...

    def refuse(self, refusal: Refusal, request_id: bytes) -> None:
        """Answer with a refusal."""
        ...

    def abort(self) -> None:
        """Break the connection: what was written of the reply is not the whole."""
        ...


class Live(Protocol):
    """A request in flight, as whoever looks at them sees it."""

    @property
    def task(self) -> "Task":
        """Return what it asks."""
        ...

    @property
    def account(self) -> Account:
        """Return its account, which is open."""
        ...

    @property
    def engine(self) -> Engine | None:
        """Return the engine that has it, or is about to get it; None: none yet."""
        ...

    @property
    def state(self) -> str:
        """Return how far it is, as one of `llmgw.model.live.STATES`."""
        ...

    @property
    def tokens(self) -> int | None:
        """Return an estimate of what was produced so far; None: nothing tells."""
        ...

    def cancelled(self, refusal: Refusal) -> None:
        """End because an operator says so: what was produced is booked, the client is told."""
        ...


class Means(Protocol):
    """What an exchange needs of its worker."""

    @property
    def deadlines(self) -> Deadlines:
        """Return the clock of deadlines."""
        ...

    @property
    def streams(self) -> Streams:
        """Return the replies that pass piece by piece."""
        ...

    @property
    def prefixes(self) -> PrefixTable:
        """Return what is known of who holds which prompts."""
        ...

    def renew(self, task: "Task") -> None:
        """Let a task go by the routes and settings of this moment."""
        ...

    def stand_in(self, task: "Task") -> Way | None:
        """Return what stands in now for the model that was asked for; None: nothing can."""
        ...

    def below(self, limit: int) -> int:
        """Return a random integer from 0 to below `limit`."""
        ...

    def jitter(self) -> float:
        """Return a random number between 0 and 1."""
        ...

    def connect(self, engine: Engine, timeout: float, done: Done) -> Callable[[], object]:
        """Connect in the background and call `done`; the returned function gives it up."""
        ...

    def engine_down(self, engine: Engine, words: str) -> None:
        """Tell the control plane that an engine could not be reached."""
        ...


@dataclass(slots=True)
class Task:
    """What has to be done: for whom, what, where to.

    `way` and `config` are those of the moment at which it was last sent, or had to wait: whoever
    sends it again has `Means.renew` look first.
    """

    request: Request
    request_id: bytes
    asked: Asked
    way: Way
    config: GatewayConfig
    may_fall_back: bool = True
    """It has not turned yet to what stands in for its model: that is done once."""
    refusal: Refusal | None = None
    """Why it is not sent after all: its key has ended while it waited."""
    was: tuple[str, bool] | None = None
    """The model that was asked for, and whether as a stream, once `asked` was dropped."""

    def drop(self, nothing: Asked) -> None:
        """Give the memory of the body back; `nothing` takes the place of what was read of it."""
        self.request.drop()
        self.was = (self.asked.model, self.asked.stream is True)
        self.asked = nothing

    @property
    def name(self) -> str:
        """Return the model that was asked for."""
        return self.asked.model if self.was is None else self.was[0]

    @property
    def streams(self) -> bool:
        """Say whether the client wants its reply as a stream."""
        return self.asked.stream is True if self.was is None else self.was[1]
