"""Which engine a request is sent to next, and what is answered when there is none."""

from llmgw.gateway.proxy.endpoints import Engine, most_at
from llmgw.gateway.proxy.means import Means, Task
from llmgw.gateway.proxy.prompts import read_prompt
from llmgw.gateway.refusals import RETRY_AFTER, Refusal, quoted, system_stopped
from llmgw.gateway.route.choice import ONLY, Prompt, choose, open_endpoints, soonest

NO_REPLICA, UNREACHABLE, FULL = "no_replica", "unreachable", "full"
CONNECTIONS = 1024
"""Requests of this gateway that one replica has at most, unless the settings say otherwise."""
RETRY_FULL = 1
"""Seconds after which a client may ask again when every replica has as many as it may have."""
MOST = 3
"""Engines that one request is sent to at most: one that kills engines may not kill them all."""


class Tries:
    """The engines that one request was sent to.

    The first is chosen by the routes that the request was just found to go by, each further one by
    those of that moment: replicas leave the routes and come while an engine is tried.
    """

    __slots__ = ("_full", "_means", "_prompt", "_spent", "_task", "_tried")

    def __init__(self, means: Means, task: Task) -> None:
        self._means = means
        self._task = task
        self._tried: list[Engine] = []
        self._prompt: Prompt | None = None
        self._full = False
        self._spent = False

    @property
    def again(self) -> bool:
        """Say whether the request was sent to several."""
        return len(self._tried) > 1

    def open_now(self) -> list[Engine]:
        """Return the engines that it can still be sent to."""
        if self._tried:
            self._look_again()
        if len(self._tried) >= MOST or self._task.config.stopped:
            return []
        now = self._means.deadlines.now()
        return open_endpoints(self._task.way.engines, self._tried, now)

    def _look_again(self) -> None:
        """Go by the routes of now."""
        task = self._task
        model = task.way.model
        self._means.renew(task)
        if task.way.model != model:
            self._prompt = None  # what is known of prompts is known by model

    def choose(self) -> tuple[Engine, str] | None:
        """Choose the engine that it is sent to next; return it and why, None when there is none."""
        open_now = self.open_now()
        if not open_now or not self._may_be_sent():
            return None
        most = self._task.config.replica_connections or CONNECTIONS
        counted = [(engine, engine.in_flight()) for engine in open_now]
        candidates = [one for one in counted if one[1] < most]
        if len(candidates) > 1:
            candidates = [one for one in candidates if self._has_room(*one)] or candidates
        self._full = not candidates
        if not candidates:
            return None
        if len(self._task.way.engines) == 1:
            engine, reason = candidates[0][0], ONLY
        else:
            engine, reason = self._choose(candidates)
        self._tried.append(engine)
        return engine, reason

    def _has_room(self, engine: Engine, in_flight: int) -> bool:
        most = most_at(engine, self._task.config)
        return most is None or in_flight < most

    def still_there(self, engine: Engine) -> bool:
        """Say whether the engine that it is about to be sent to is still in the routes."""
        before = self._task.way
        self._means.renew(self._task)
        way = self._task.way
        return (way is before or engine in way.engines) and not self._task.config.stopped

    def left(self) -> None:
        """Forget the engine chosen last: it left the routes, and did not fail."""
        self._tried.pop()

    def may_go_on(self) -> bool:
        """Say whether another engine is open, and requests may be sent again."""
        return bool(self.open_now()) and self._task.way.budget.left(self._means.deadlines.now())

    def _may_be_sent(self) -> bool:
        budget = self._task.way.budget
        if not self._tried:
            budget.asked()
            return True
        self._spent = not budget.spend(self._means.deadlines.now())
        return not self._spent

    def _choose(self, counted: list[tuple[Engine, int]]) -> tuple[Engine, str]:
        """Choose by what each has to do and holds, and remember what it will hold."""
        prompt = self._prompt
        if prompt is None:
            task = self._task
            prompt = self._prompt = read_prompt(task.request, task.asked, task.way.model)
        table = self._means.prefixes
        now = self._means.deadlines.now()
        candidates = [engine for engine, _ in counted]
        loads = [engine.load(own, now) for engine, own in counted]
        engine, reason = choose(candidates, loads, prompt, table, self._means.below)
        table.learn(prompt.hashes, engine.mark)
        if prompt.session is not None:
            table.assign(prompt.session, engine.mark)
        return engine, reason

    def why(self) -> str:
        """Return why there is none, in a word."""
        if not self._task.way.engines:
            return NO_REPLICA
        return FULL if self._full else UNREACHABLE

    def nobody(self) -> Refusal:
        """Return why there is none."""
        way = self._task.way
        if self._task.config.stopped:
            return system_stopped()
        model = quoted(way.model)
        if not way.engines:
            words = way.reason or "no replica is ready"
            return Refusal("no_replica", f"model {model}: {words}", "model", RETRY_AFTER)
        if self._full:
            words = f"model {model}: every replica has as many requests as it may have"
            return Refusal("replicas_full", words, "model", RETRY_FULL)
        seen = self._tried[-1] if self._tried else way.engines[0]
        words = f"model {model}: no replica could be reached: {seen.health.words}"
        if self._spent:
            words = f"{words}; too many requests were sent again lately"
        wait = soonest(way.engines, self._means.deadlines.now())
        return Refusal("engine_unreachable", words, "model", round(wait + 0.5))
