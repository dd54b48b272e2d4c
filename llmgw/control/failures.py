"""Starts that failed, counted per model and node, so that the next one waits or goes elsewhere."""

from llmgw.plan.records import StartFailure

SURVIVED = 60.0
"""Seconds of service after which a death is no failed start: it is restarted at once, once."""


class Failures:
    """Failed starts by (model, node); times are monotonic seconds."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], StartFailure] = {}

    def note(self, model: str, node: str, words: str, at: float) -> StartFailure:
        """Count one more failed start of a model on a node."""
        known = self._failures.get((model, node))
        failure = StartFailure(
            model=model,
            node=node,
            count=known.count + 1 if known else 1,
            last=max(at, known.last) if known else at,
            words=words,
        )
        self._failures[model, node] = failure
        return failure

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
