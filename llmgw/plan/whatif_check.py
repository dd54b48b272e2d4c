"""What is wrong with a saved fleet: a person may have changed it to ask what would be then."""

from collections import Counter
from collections.abc import Iterable, Iterator

from llmgw.model.catalog_check import check_model
from llmgw.model.check import check_settings
from llmgw.model.record import Problem
from llmgw.plan.whatif import Snapshot


def check_snapshot(snapshot: Snapshot) -> tuple[Problem, ...]:
    """Return every problem of a saved fleet, each with its path; empty when there is none."""
    return tuple(_problems(snapshot))


def _problems(snapshot: Snapshot) -> Iterator[Problem]:
    desired, observed = snapshot.desired, snapshot.observed
    for problem in check_settings(desired.settings):
        yield Problem(path=f"desired.settings.{problem.path}", words=problem.words)
    for number, entry in enumerate(desired.models):
        for problem in check_model(entry.model):
            path = f"desired.models[{number}].model.{problem.path}"
            yield Problem(path=path, words=problem.words)
    yield from _twice("desired.models", "model", (entry.model.name for entry in desired.models))
    yield from _twice("observed.nodes", "node", (room.node.id for room in observed.nodes))
    yield from _twice("observed.replicas", "replica", (one.id for one in observed.replicas))
    for number, replica in enumerate(observed.replicas):
        if not replica.shards:
            path = f"observed.replicas[{number}].shards"
            yield Problem(path=path, words=f"replica {replica.id} has none, and runs nowhere")


def _twice(path: str, what: str, names: Iterable[str]) -> Iterator[Problem]:
    for name, count in Counter(names).items():
        if count > 1:
            yield Problem(path=path, words=f"{what} {name!r} is there {count} times")
