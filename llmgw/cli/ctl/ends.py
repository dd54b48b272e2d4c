"""What a command would end: replicas, and the replies that they have begun."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from llmgw.cli import session, show
from llmgw.cli.ctl.replicas import ReplicaSeen
from llmgw.model.catalog import Model
from llmgw.model.replica import LEAVING, OVER

NAMED = 5
"""Replicas that a line names before it counts the rest."""


def runs(*, leaving: bool = False) -> list[ReplicaSeen]:
    """Return the replicas that run, by id; those on their way out only if they are asked for."""
    found = session.get("/replicas", tuple[ReplicaSeen, ...])
    over = OVER if leaving else OVER | LEAVING
    return [one for one in found if one.state not in over]


def foreseen(model: Model) -> tuple[str, list[str]]:
    """Return what putting a model into the catalog would come to.

    Returns:
        What it takes, in a sentence, empty if nothing; and a line a model for what would end:
        replicas of its own, and those of others that give way to it. Empty: nothing would.
    """
    answer: dict[str, Any] = session.connect().post("/plan/model", msgspec.to_builtins(model))
    here = {one.id: one for one in runs()}
    gone = {one["replica"]: one["words"] for one in answer["gives_up"] if one["replica"] in here}
    lines = []
    for name in dict.fromkeys([model.name, *(str(here[one].model) for one in gone)]):
        ending = [here[one] for one in gone if here[one].model == name]
        if ending:
            why = "; ".join(dict.fromkeys(gone[one.id] for one in ending))
            lines.append(f"{name}: {ending_words(ending)}: {why}")
    return _takes(answer), lines


def _takes(answer: dict[str, Any]) -> str:
    """Return what serving takes; what gives way for it is told elsewhere."""
    if not answer["gives_up"]:
        return str(answer["words"])
    seats = [
        " and ".join(f"{shard['node']} [{' '.join(shard['devices']) or 'CPU'}]" for shard in shards)
        for shards in (one["shards"] for one in answer["starts"])
    ]
    refused = [one for one in answer["profiles"] if one["refusal"] is not None]
    parts = [f"starts {show.count(len(seats), 'replica')}: {listed(seats)}"] if seats else []
    parts += [f"can't place {one['profile']}: {one['refusal']['words']}" for one in refused]
    return "; ".join(parts)


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def ending_words(ending: Sequence[ReplicaSeen], what: str = "will end") -> str:
    """Return `2 replicas will end (3 replies in flight): tiny-1 on n1, tiny-2 on n2`."""
    if not ending:
        return f"no replica {what}"
    named = [f"{one.id} on {show.replica_nodes(one)}" for one in ending]
    count = show.count(len(ending), "replica")
    return f"{count} {what} ({flights(ending)}): {listed(named)}"


def flights(ending: Collection[ReplicaSeen]) -> str:
    """Return how many replies some replicas have begun, in words."""
    known = [one.in_flight for one in ending if one.in_flight is not None]
    if len(known) < len(ending):
        return "how many replies are in flight is not known"
    total = sum(known)
    if not total:
        return "nothing in flight"
    return f"{total} {'reply' if total == 1 else 'replies'} in flight"
