"""What one exchange is asked to do, and what it needs of its worker to do it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from llmgw.gateway.proxy.body import Asked
from llmgw.gateway.proxy.deadlines import Deadlines
from llmgw.gateway.proxy.endpoints import Engine, Way
from llmgw.gateway.proxy.engine import EngineConnection
from llmgw.gateway.proxy.held import Held
from llmgw.gateway.proxy.requests import Request
from llmgw.model.gateway import GatewayConfig


class Means(Protocol):
    """What an exchange needs of its worker."""

    @property
    def deadlines(self) -> Deadlines:
        """Return the clock of deadlines."""
        ...

    @property
    def held(self) -> Held:
        """Return the requests that wait for a model to be started."""
        ...

    def below(self, limit: int) -> int:
        """Return a random integer from 0 to below `limit`."""
        ...

    def jitter(self) -> float:
        """Return a random number between 0 and 1."""
        ...

    def connect(
        self,
        engine: Engine,
        timeout: float,
        done: Callable[[EngineConnection | None, str], None],
    ) -> Callable[[], object]:
        """Connect in the background and call `done`; the returned function gives it up."""
        ...

    def engine_down(self, engine: Engine, words: str) -> None:
        """Tell the control plane that an engine could not be reached."""
        ...


@dataclass(slots=True)
class Task:
    """What has to be done: for whom, what, where to."""

    request: Request
    request_id: bytes
    asked: Asked
    way: Way
    config: GatewayConfig
