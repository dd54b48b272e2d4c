"""The queues of one worker: requests that wait until a model is started, or a replica has room.

A replica that says how many requests it serves at once, or is told so by the settings, is sent no
more than that. What is more waits here, where it is taken in a fair order, and not in the engine.

Each worker has its own queue of each model. A place that becomes free goes to whoever sees it
first; but while other workers wait too, a worker leaves it to them when it has its part already,
and looks only each `POLL` seconds, not twice in a row with success. So no worker's queue starves, a
replica is sent at most one request too many for each further worker, and between workers a place is
free for a moment.
"""

from collections.abc import Callable, Mapping
from math import ceil, inf
from typing import Protocol

from llmgw.gateway.accounting import Books
from llmgw.gateway.admission.queue import FairQueue, Place, Served, Share
from llmgw.gateway.cells import Cells
from llmgw.gateway.proxy.endpoints import Engine, Way, most_at
from llmgw.gateway.proxy.newest import LEFT
from llmgw.gateway.refusals import RETRY_AFTER, Refusal, quoted, system_stopped
from llmgw.model.gateway import GatewayConfig
from llmgw.model.keys import Key

RETRY_MOST = 60
"""The longest that a client is told to wait for a place in a full queue."""
POLL = 0.02
"""Seconds between two looks for places that other workers' requests left."""


class Waits(Protocol):
    """A request that waits."""

    def go_on(self, way: Way, going: "Going | None") -> None:
        """Go to an engine: there is one now, with room; `going` is told what it uses."""
        ...

    def give_up(self, refusal: Refusal) -> None:
        """Answer with a refusal."""
        ...

    def tell(self, place: int, length: int, now: float) -> float:
        """Tell the client its place, 1 is the first; return when it is to be told again."""
        ...


class Going(Served):
    """One request that was let on, and whose end makes room for another."""

    __slots__ = ("_gate",)

    def __init__(self, share: Share, gate: "Gate") -> None:
        super().__init__(share)
        self._gate = gate

    def closed(self) -> None:
        """Put right what was charged at first, and let the next one on."""
        super().closed()
        self._gate.departed()


class _Queue:
    """The queue of one model."""

    __slots__ = ("last_wait", "queue", "tell_at", "waits_at")

    def __init__(self) -> None:
        self.queue: FairQueue[Waits] = FairQueue()
        self.tell_at = inf
        """When the next client is to be told its place."""
        self.last_wait = 0.0
        """Seconds for which the last one that went on had waited."""
        self.waits_at: tuple[int, ...] = ()
        """The columns at which other workers see that requests wait."""


class Seat:
    """One request's place in a queue."""

    __slots__ = ("_gate", "_model", "place")

    def __init__(self, gate: "Gate", model: str, place: Place[Waits]) -> None:
        self._gate = gate
        self._model = model
        self.place = place

    def leave(self) -> None:
        """Wait no longer; one that does not is no error."""
        self._gate.leave(self._model, self.place)


class Gate:
    """Lets requests on, or lets them wait.

    Args:
        books: told how long those waited that went on.
        cells: what is in flight, over all workers.
        now: monotonic seconds.
        later: calls a function in so many seconds.
        changed: called when it is news how many wait.
    """

    def __init__(
        self,
        books: Books,
        cells: Cells,
        now: Callable[[], float],
        later: Callable[[float, Callable[[], None]], object],
        changed: Callable[[], None],
    ) -> None:
        self._books = books
        self._cells = cells
        self._now = now
        self._later = later
        self._changed = changed
        self._queues: dict[str, _Queue] = {}
        self._ways: Mapping[str, Way] = {}
        self._config: GatewayConfig | None = None
        self._capped: frozenset[str] = frozenset()
        self._polls = False
        self._yields = False
        """The next look is left out: the last one took a place that another worker wants too."""
        self._called = False

    def take(self, ways: Mapping[str, Way], config: GatewayConfig) -> None:
        """Act on a table: let on whoever can be, and answer those that need not wait any more."""
        self._ways, self._config = ways, config
        self._capped = frozenset(
            way.model
            for way in ways.values()
            if any(most_at(engine, config) is not None for engine in way.engines)
        )
        for model in list(self._queues):
            self._look_at(model)
            if not len(self._queues[model].queue) and model not in self._capped:
                del self._queues[model]

    def counts(self) -> dict[str, int]:
        """Return how many wait for each model."""
        return {model: len(one.queue) for model, one in self._queues.items() if len(one.queue)}

    def lets_on(self, way: Way) -> bool:
        """Say whether a request for a model need not wait. Cheap where nothing limits the model."""
        if way.model in self._capped:
            known = self._queues.get(way.model)
            if known is not None and len(known.queue):
                return False
            return self._has_room(way, waits=False, polled=True)
        return bool(way.engines) or not way.holds

    def began(self, way: Way, key: str) -> Going | None:
        """Note a request of a key that goes on now; None: nothing limits the model."""
        if way.model not in self._capped:
            return None
        return Going(self._queue(way.model).queue.began(key), self)

    def wait(self, request: Waits, way: Way, key: Key, most: int) -> Seat | Refusal:
        """Let a request wait, or say why it can't.

        Args:
            request: told what becomes of it.
            way: of its model.
            key: whose it is.
            most: how many may wait.
        """
        one = self._queue(way.model)
        if len(one.queue) >= most:
            return self._too_many(one, way)
        now = self._now()
        place = one.queue.put(request, key.id, key.priority, now)
        one.tell_at = min(one.tell_at, now)
        self._show(one, way)
        self._changed()
        self._poll()
        return Seat(self, way.model, place)

    def places(self) -> dict[Waits, int]:
        """Return where in its queue each request stands that waits; 1 goes next."""
        now = self._now()
        return {
            request: at
            for one in self._queues.values()
            if len(one.queue)
            for at, request in enumerate(one.queue.order(now), 1)
        }

    def leave(self, model: str, place: Place[Waits]) -> None:
        """Forget a request that waits no longer."""
        one = self._queues.get(model)
        if one is None:
            return
        before = len(one.queue)
        one.queue.drop(place)
        if len(one.queue) != before:
            self._show(one, self._ways.get(model))
            self._changed()

    def departed(self) -> None:
        """Let on whoever waits for a place that has just become free, once its engine knows."""
        if not self._called and any(len(one.queue) for one in self._queues.values()):
            self._called = True
            self._later(0.0, self._look)

    def tell(self) -> None:
        """Tell clients their places, those that are to be told now."""
        now = self._now()
        for one in self._queues.values():
            if len(one.queue) and one.tell_at <= now:
                waiting = list(one.queue.order(now))
                one.tell_at = min(
                    request.tell(at, len(waiting), now) for at, request in enumerate(waiting, 1)
                )

    # Looking.

    def _look(self) -> None:
        self._called = False
        self._look_at_all(polled=False)

    def _poll(self) -> None:
        """Look again and again while requests wait for places that other workers may leave."""
        waits = any(model in self._capped for model, one in self._queues.items() if len(one.queue))
        if waits and not self._polls:
            self._polls = True
            self._later(POLL, self._polled)

    def _polled(self) -> None:
        self._polls = False
        yields, self._yields = self._yields, False
        if not yields:
            self._look_at_all(polled=True)
        self._poll()

    def _look_at_all(self, *, polled: bool) -> None:
        for model in list(self._queues):
            if len(self._queues[model].queue):
                self._look_at(model, polled=polled)

    def _look_at(self, model: str, *, polled: bool = False) -> None:
        one, way, config = self._queues[model], self._ways.get(model), self._config
        if config is not None and config.stopped:
            self._refuse(one, system_stopped())
        elif way is not None and way.engines:
            self._let_on(one, way, polled=polled)
        elif way is None or not way.holds:
            self._refuse(one, _nobody(model, way))
        self._show(one, way)
        self._poll()

    def _let_on(self, one: _Queue, way: Way, *, polled: bool) -> None:
        capped = way.model in self._capped
        while (place := one.queue.next(self._now())) is not None:
            if capped and not self._has_room(way, waits=True, polled=polled):
                return
            one.queue.go(place, self._now())
            one.last_wait = self._now() - place.since
            self._yields = self._yields or (polled and self._wanted_elsewhere(way))
            self._books.waited(way.model, one.last_wait)
            place.request.go_on(way, self.began(way, place.share.key))
            self._changed()

    def _refuse(self, one: _Queue, refusal: Refusal) -> None:
        for place in one.queue.all():
            one.queue.drop(place)
            place.request.give_up(refusal)
            self._changed()

    def _has_room(self, way: Way, *, waits: bool, polled: bool) -> bool:
        """Say whether a request may be sent now.

        Where no replica answers, those that wait stay: one of them goes as the probe when it is
        time for one. A request that finds nobody waiting goes on, and is told what is wrong.

        Args:
            way: of the model.
            waits: requests wait here, which other workers see.
            polled: it is not at the moment at which a request of this worker ended.
        """
        config, now = self._config, self._now()
        if config is None:
            return True
        usable = [engine for engine in way.engines if engine.health.usable(now)]
        if not usable:
            if waits:
                return False
            usable = [engine for engine in way.engines if engine.health.is_back(now)]
        if not usable:
            return True
        return any(self._takes(engine, config, polled=polled) for engine in usable)

    def _takes(self, engine: Engine, config: GatewayConfig, *, polled: bool) -> bool:
        most = most_at(engine, config)
        if most is None:
            return True
        if engine.in_flight() >= most:
            return False
        others = self._cells.waiting_elsewhere(engine.column)
        if not others:
            return True
        own = self._cells.own(engine.column)
        part = most / (others + 1)
        return own < ceil(part) if polled else own + 1 <= part

    def _wanted_elsewhere(self, way: Way) -> bool:
        return any(self._cells.waiting_elsewhere(engine.column) for engine in way.engines)

    # Showing.

    def _queue(self, model: str) -> _Queue:
        one = self._queues.get(model)
        if one is None:
            one = self._queues[model] = _Queue()
        return one

    def _show(self, one: _Queue, way: Way | None) -> None:
        """Let other workers see at which engines requests of this one wait."""
        engines = way.engines if way is not None and len(one.queue) else ()
        columns = tuple(engine.column for engine in engines)
        if columns != one.waits_at:
            for column in one.waits_at:
                self._cells.wait(column, waits=False)
            for column in columns:
                self._cells.wait(column, waits=True)
            one.waits_at = columns

    def _too_many(self, one: _Queue, way: Way) -> Refusal:
        model, length = quoted(way.model), len(one.queue)
        if not way.engines:
            why = way.reason or "no replica is ready"
            words = f"{why}; {_waiting(length)} for it already"
            return Refusal("no_replica", f"model {model}: {words}", "model", RETRY_AFTER)
        words = f"all its replicas are full and {_waiting(length)} already"
        wait = min(RETRY_MOST, max(1, ceil(one.last_wait)))
        return Refusal("queue_full", f"model {model}: {words}", "model", wait)


def _waiting(count: int) -> str:
    return "1 request waits" if count == 1 else f"{count} requests wait"


def _nobody(model: str, way: Way | None) -> Refusal:
    words = (way.reason if way is not None else None) or LEFT
    return Refusal("no_replica", f"model {quoted(model)}: {words}", "model", RETRY_AFTER)
