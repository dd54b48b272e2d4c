"""Failed starts and early ends, by model and node: the next start waits or goes elsewhere."""

from llmgw.plan.records import StartFailure

SURVIVED = 600.0
"""Seconds of service after which what was counted before is forgiven."""

FAILED_FOR = 600.0
"""Seconds for which a failed shard stays visible, and its failure counts after a restart."""

MOST_MODELS = 256
"""Models of which failures are counted on one node; it names them itself."""


class Failures:
    """Failed starts by (model, node); times are monotonic seconds."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], StartFailure] = {}

    def note(
        self, model: str, node: str, words: str, at: float, *, served: bool = False
    ) -> StartFailure:
        """Count one more failed start of a model on a node, or the end of one that had served."""
        known = self._failures.get((model, node))
        if known is None:
            self._make_room(node)
        failure = StartFailure(
            model=model,
            node=node,
            count=known.count + 1 if known else 1,
            last=max(at, known.last) if known else at,
            words=words,
            served=served,
            served_first=known.served_first if known else served,
        )
        self._failures[model, node] = failure
        return failure

    def _make_room(self, node: str) -> None:
        there = [which for which in self._failures if which[1] == node]
        if len(there) >= MOST_MODELS:
            del self._failures[min(there, key=lambda which: self._failures[which].last)]

    def forgive(self, *, model: str | None = None, node: str | None = None) -> None:
        """Forget what is counted for a model, a node, or a model on a node."""
        for which in [
            which
            for which in self._failures
            if (model is None or which[0] == model) and (node is None or which[1] == node)
        ]:
            del self._failures[which]

    def all(self) -> tuple[StartFailure, ...]:
        """Return all counts, by model and node."""
        return tuple(self._failures[which] for which in sorted(self._failures))
