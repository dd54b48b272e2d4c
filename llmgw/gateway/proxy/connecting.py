"""Connections to engines that are being made, in the background."""

import asyncio
from collections.abc import Callable

from llmgw.gateway.proxy import faults
from llmgw.gateway.proxy.endpoints import Engine
from llmgw.gateway.proxy.engine import EngineConnection
from llmgw.gateway.proxy.shortage import Shortage
from llmgw.gateway.refusals import Refusal

Done = Callable[[EngineConnection | None, str | Refusal], None]
"""Told the connection; or None and how the engine failed, or why it was not even asked."""


class Connecting:
    """All attempts of one worker."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._shortage = Shortage()

    def __len__(self) -> int:
        """Return how many are under way."""
        return len(self._tasks)

    def begin(self, engine: Engine, timeout: float, done: Done) -> Callable[[], object]:
        """Connect and call `done`; the returned function gives it up, and nothing is told."""
        task = asyncio.get_running_loop().create_task(self._connect(engine, timeout, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task.cancel

    async def close(self) -> None:
        """Give all of them up."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, engine: Engine, timeout: float, done: Done) -> None:
        connection, words = None, ""
        try:
            connection = await engine.connect(timeout)
        except TimeoutError:
            words = f"no connection within {timeout:g} s"
        except OSError as error:
            refusal = self._shortage.refusal(error)
            if refusal is not None:
                done(None, refusal)
                return
            words = f"no connection: {error.strerror or error}"
        except Exception as error:  # noqa: BLE001 (whoever waits has to be told, whatever it was)
            faults.note(error, "connect to an engine")
            words = f"no connection: {error}"
        done(connection, words)
