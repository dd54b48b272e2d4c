"""A request on its way: to which engine, over which connection, and to which one next."""

from collections.abc import Callable
from typing import Protocol

from llmgw.gateway.accounting import Account
from llmgw.gateway.proxy.endpoints import Engine
from llmgw.gateway.proxy.engine import EngineConnection, Reader
from llmgw.gateway.proxy.means import Means, Task
from llmgw.gateway.proxy.outgoing import Outgoing
from llmgw.gateway.proxy.prompts import session_refusal
from llmgw.gateway.proxy.tries import Tries
from llmgw.gateway.refusals import Refusal


class Sender(Reader, Protocol):
    """Who waits for the reply, and is told when there will be none."""

    def set_deadline(self, seconds: float | None) -> None:
        """Act when so many seconds have passed; None: whoever works on it keeps the time."""
        ...

    def cannot_be_sent(self, refusal: Refusal) -> None:
        """Take why no engine gets the request."""
        ...

    def fault(self, error: Exception) -> None:
        """End after a fault of our own, if that has not been done."""
        ...


class Sending:
    """Chooses an engine, connects, sends; goes on to another when it is told that one failed.

    The engine counts the request from the moment of the choice until `let_go` or `arrived`, one of
    which is called exactly once for each choice.
    """

    __slots__ = (
        "_account",
        "_give_up",
        "_means",
        "_paused",
        "_probe",
        "_sender",
        "_task",
        "_tries",
        "connection",
        "engine",
        "outgoing",
    )

    def __init__(self, means: Means, sender: Sender, task: Task, account: Account) -> None:
        self._means = means
        self._sender = sender
        self._task = task
        self._account = account
        self._tries = Tries(means, task)
        self._give_up: Callable[[], object] | None = None
        self._paused = False
        self._probe = False
        self.outgoing = Outgoing(task)
        self.engine: Engine | None = None
        """The one that has the request, or is about to get it."""
        self.connection: EngineConnection | None = None
        """The one that the request went over."""

    def prepare(self) -> Refusal | None:
        """Write what is the same for every engine; return why that can't be done."""
        task = self._task
        return task.refusal or session_refusal(task.request) or self.outgoing.ask_for_usage()

    def next(self) -> None:
        """Send the request to the engine that is best for it now."""
        choice = self._tries.choose()
        if choice is None and self._fall_back():
            choice = self._tries.choose()
        if choice is None:
            self._sender.cannot_be_sent(self._tries.nobody())
            return
        engine, reason = choice
        self._account.chosen(reason)
        if self._tries.again:
            self._account.retried()
        self.engine = engine
        self._probe = engine.entered(self._means.deadlines.now())
        refusal = self.outgoing.write_for(engine)
        if refusal is not None:
            self._sender.cannot_be_sent(refusal)
            return
        connection = engine.take_idle()
        if connection is None:
            self._connect(engine)
        else:
            self._send(engine, connection)

    def _fall_back(self) -> bool:
        """Turn to what stands in for the model, once; say whether there is anything."""
        task = self._task
        way = self._means.stand_in(task)
        if way is None:
            return False
        self._account.fell_back(way.model, self._tries.why())
        task.way, task.may_fall_back = way, False
        self._tries = Tries(self._means, task)
        return True

    def another_is_open(self) -> bool:
        """Say whether the request may go to another engine now."""
        return self._tries.may_go_on() or self._means.stand_in(self._task) is not None

    def failed(self, words: str, *, answers: bool = False) -> None:
        """Take the engine out of choice for a while and go on to another.

        Args:
            words: how it failed.
            answers: it is there, and said no.
        """
        engine = self.engine
        if engine is None:
            return
        engine.health.failed(self._means.deadlines.now(), self._means.jitter(), words)
        if not answers:
            self._means.engine_down(engine, words)
        self.let_go()
        self.next()

    def on_a_new_connection(self) -> None:
        """Send it to the same engine again, as it was written, if it is still in the routes."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.drop()
        engine = self.engine
        if engine is not None and self._may_have(engine):
            self._connect(engine)

    def as_written(self) -> None:
        """Send it to the same engine again, as one that wants no stream."""
        engine = self.engine
        if engine is None:
            return
        self.outgoing.keep_as_written()
        refusal = self.outgoing.write_for(engine)
        if refusal is not None:
            self._sender.cannot_be_sent(refusal)
            return
        self.on_a_new_connection()

    def pause(self) -> None:
        """Let the engine wait."""
        self._paused = True
        if self.connection is not None:
            self.connection.pause()

    def resume(self) -> None:
        """Let the engine go on."""
        self._paused = False
        if self.connection is not None:
            self.connection.resume()

    def broke_off(self) -> bool:
        """Forget the connection that broke; say whether it had carried a request before."""
        connection, self.connection = self.connection, None
        return connection is not None and connection.reused

    def arrived(self, now: float) -> None:
        """Note that the reply is whole: the engine is free, and so is the connection."""
        connection, self.connection = self.connection, None
        engine, self.engine = self.engine, None
        if engine is None:
            return
        engine.left(probe=self._probe)
        if connection is not None:
            if self._paused:
                connection.resume()
            engine.give_back(connection, now)

    def let_go(self) -> None:
        """Leave the engine, whatever it is doing for this request."""
        give_up, self._give_up = self._give_up, None
        if give_up is not None:
            give_up()
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.drop()
        engine, self.engine = self.engine, None
        if engine is not None:
            engine.left(probe=self._probe)

    def _connect(self, engine: Engine) -> None:
        self._sender.set_deadline(None)  # connecting has a timeout of its own
        self._give_up = self._means.connect(
            engine, self._task.config.connect_timeout, self._connected
        )

    def _may_have(self, engine: Engine) -> bool:
        """Say whether a request may still be sent to an engine; else it goes on to another.

        One that has left the routes meanwhile gets nothing new, though nothing else serves.
        """
        if self._tries.still_there(engine):
            return True
        self._tries.left()
        self.let_go()
        self.next()
        return False

    def _connected(self, connection: EngineConnection | None, words: str | Refusal) -> None:
        try:
            self._go_on(connection, words)
        except Exception as error:  # noqa: BLE001 (nobody else would end this request)
            self._sender.fault(error)

    def _go_on(self, connection: EngineConnection | None, words: str | Refusal) -> None:
        self._give_up = None
        engine = self.engine
        if engine is None:
            return
        if isinstance(words, Refusal):
            self._sender.cannot_be_sent(words)
        elif connection is None or not connection.usable:
            self.failed(words or "the engine closed the connection at once")
        elif self._may_have(engine):
            self._send(engine, connection)
        else:
            connection.close()

    def _send(self, engine: Engine, connection: EngineConnection) -> None:
        self.connection = connection
        self._sender.set_deadline(self._task.config.first_byte_timeout)
        connection.send(self._sender, self.outgoing.head_for(engine), self.outgoing.body)
        if self._paused:
            connection.pause()
