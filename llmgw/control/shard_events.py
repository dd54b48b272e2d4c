"""What becomes of shards: people are told once, and what counts as a failure is counted."""

from collections.abc import Callable

from llmgw.base.clock import Clock
from llmgw.control.events import Events
from llmgw.control.failures import FAILED_FOR, SURVIVED, Failures
from llmgw.control.nodes import SeenNode, ShardKey
from llmgw.model.events import INFO, PROBLEM
from llmgw.model.shard import FAILED, READY, STOPPED, STUCK, ShardStatus


class ShardEvents:
    """Tells of shards that became ready or ended, and counts those that failed.

    Since when a shard is ready (`SeenNode.ready_shards`) is noted here.

    Args:
        failures: where they are counted.
        on_end: called when a replica that served has ended by itself.
    """

    def __init__(
        self, clock: Clock, events: Events, failures: Failures, on_end: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._events = events
        self._failures = failures
        self._on_end = on_end

    def tell(self, severity: str, replica: str, words: str, node: str) -> None:
        """Tell people of a replica, in words that go on from its id."""
        text = f"{replica} {words}"
        self._events.add("replica", replica, text, severity=severity, source=node)

    def reported(
        self, node: SeenNode, key: ShardKey, known: ShardStatus | None, status: ShardStatus
    ) -> None:
        """Tell what is new in a shard's status.

        Args:
            node: who reported it.
            key: which shard.
            known: its status before; None: it was not known there.
            status: as it is now.
        """
        before = known.state if known else None
        if status.state == before:
            return
        where = f"on {node.id}"
        if status.state == READY:
            node.ready_shards.setdefault(key, self._clock.monotonic())
            how = "is adopted" if status.adopted else "is ready"
            self.tell(INFO, key[0], f"{how} {where}", node.id)
        elif status.state == STOPPED:
            words = f"stopped {where}: {status.reason or 'no reason said'}"
            self.tell(INFO, key[0], words, node.id)
        elif status.state == FAILED:
            self._failed(node, key, status, known_before=known is not None)
        elif status.state == STUCK:
            self._stuck(node, key, status)
        if status.state != READY:
            node.ready_shards.pop(key, None)

    def failed_start(
        self,
        model: str,
        node: str,
        replica: str,
        words: str,
        *,
        age: float = 0.0,
        served: bool = False,
    ) -> None:
        """Count a failed start, or the end of a replica that served, and tell it.

        Args:
            model: whose.
            node: where.
            replica: which.
            words: why.
            age: seconds since it failed.
            served: it had served before.
        """
        at = self._clock.monotonic() - age
        failure = self._failures.note(model, node, words, at, served=served)
        times = "" if failure.count == 1 else f" (the {failure.count}. time there)"
        self.tell(PROBLEM, replica, f"failed on {node}{times}: {words}", node)

    def _failed(
        self, node: SeenNode, key: ShardKey, status: ShardStatus, *, known_before: bool
    ) -> None:
        words = status.reason or status.cause or "it ended"
        if known_before and status.cause == STUCK:
            # It was counted and told when it was found to be stuck.
            self.tell(INFO, key[0], f"stopped on {node.id}: {words}", node.id)
            return
        age = 0.0
        if not known_before and status.since is not None:
            age = max(0.0, self._clock.now() - status.since)
        model = model_of(status)
        ready = node.ready_shards.get(key)
        if ready is not None and self._clock.monotonic() - ready >= SURVIVED:
            self._failures.forgive(model=model or "", node=node.id)
        if age < FAILED_FOR and model is not None:
            served = ready is not None
            self.failed_start(model, node.id, key[0], words, age=age, served=served)
            if served:
                self._on_end()

    def _stuck(self, node: SeenNode, key: ShardKey, status: ShardStatus) -> None:
        """Count an engine that hangs as one that ended: the next start after it waits as long."""
        model, words = model_of(status), status.reason or "its engine does nothing"
        self.tell(PROBLEM, key[0], f"is stuck on {node.id}: {words}", node.id)
        if model is not None:
            self._failures.note(model, node.id, words, self._clock.monotonic(), served=True)
            self._on_end()


def model_of(status: ShardStatus | None) -> str | None:
    """Return a shard's model; None when nobody said it."""
    return status.spec.model if status is not None and status.spec is not None else None
