"""`routes`: where requests for each model go, from fleet, catalog and settings."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from llmgw.model.catalog import CatalogEntry, Model
from llmgw.model.gateway import Endpoint, Route
from llmgw.model.node import LOST, Node
from llmgw.model.replica import Replica
from llmgw.model.settings import Settings
from llmgw.model.shard import FAILED, STOPPED
from llmgw.model.shard import READY as SHARD_READY
from llmgw.plan.backoff import RULE as FAILURES
from llmgw.plan.records import NOT_NOW, Refusal, Want
from llmgw.plan.scaling import on_demand
from llmgw.plan.words import some

Key = Callable[[str], str | None]
"""Gives a replica's key; None for a cluster without."""


def routes(
    replicas: Iterable[Replica],
    nodes: Iterable[Node],
    models: Sequence[CatalogEntry],
    settings: Settings,
    *,
    key: Key,
    refusals: Sequence[Refusal] = (),
    wants: Sequence[Want] = (),
) -> tuple[Route, ...]:
    """Return one route a model of the catalog, by name; endpoints by replica.

    A replica is routed to while it is ready, whatever its node's agent does: that of an
    unreachable node stays, that of a lost node is a last resort. One that is being stopped is
    not; one on a node that drains serves until another took its place and it is stopped itself.

    Args:
        replicas: as the fleet rebuilt them.
        nodes: all nodes.
        models: the catalog.
        settings: a stopped cluster routes nothing.
        key: gives a replica's key.
        refusals: of the last plan, for the reason where nothing serves.
        wants: how many replicas scaling wants, of profiles that scale.
    """
    by_id = {node.id: node for node in nodes}
    by_model: dict[str, list[Replica]] = {}
    for replica in sorted(replicas, key=lambda one: one.id):
        if replica.model is not None:
            by_model.setdefault(replica.model, []).append(replica)
    refused = {refusal.model: refusal for refusal in reversed(refusals)}
    wanted = {(want.model, want.profile): want for want in wants}
    stopped = settings.serving.stopped
    return tuple(
        _route(
            entry.model,
            () if stopped else by_model.get(entry.model.name, ()),
            by_id,
            key,
            refused.get(entry.model.name),
            wanted,
            stopped=stopped,
        )
        for entry in sorted(models, key=lambda one: one.model.name)
    )


def _route(
    model: Model,
    replicas: Sequence[Replica],
    nodes: Mapping[str, Node],
    key: Key,
    refused: Refusal | None,
    wants: Mapping[tuple[str, str], Want],
    *,
    stopped: bool,
) -> Route:
    endpoints = tuple(
        endpoint for one in replicas if (endpoint := _endpoint(one, nodes, key)) is not None
    )
    of_model = [wants.get((model.name, profile.name)) for profile in model.profiles]
    wanted = sum(
        want.replicas if want is not None else profile.replicas
        for want, profile in zip(of_model, model.profiles, strict=True)
    )
    reason = None
    if not endpoints:
        resting = [want.words for want in of_model if want is not None and not want.replicas]
        reason = "the cluster is stopped" if stopped else _refused(refused)
        reason = reason or _starting(replicas) or _failed(replicas) or _not_there(wanted, resting)
    return Route(
        model=model.name,
        endpoints=endpoints,
        wanted=wanted,
        reason=reason,
        holds=not (endpoints or stopped) and any(map(on_demand, model.profiles)) and _may(refused),
    )


def _may(refused: Refusal | None) -> bool:
    """Say whether waiting helps: what has just failed on its own is not waited for."""
    if refused is None:
        return True
    return any(
        one.verdict.kind == NOT_NOW and one.verdict.rule != FAILURES for one in refused.candidates
    )


def _not_there(wanted: int, resting: Sequence[str]) -> str:
    """Return why nothing serves a model that nobody has begun to start."""
    if wanted:
        return "not started yet"
    return f"{resting[0]}: a request starts it" if resting else "no replica of it is wanted"


def _endpoint(replica: Replica, nodes: Mapping[str, Node], key: Key) -> Endpoint | None:
    """Return where a replica answers: at its rank 0; None when it can't be routed to."""
    head = next((shard for shard in replica.shards if shard.rank == 0), None)
    if replica.state != SHARD_READY or head is None or head.port is None:
        return None
    node = nodes.get(head.node)
    host = head.address or (node.address if node is not None else None)
    if node is None or not host:
        return None
    return Endpoint(
        replica=replica.id,
        node=head.node,
        host=host,
        port=head.port,
        key=None if head.keyed is False else key(replica.id),
        served_name=head.served_name,
        engine=replica.engine,
        last_resort=any(_lost(shard.node, nodes) for shard in replica.shards),
    )


def _lost(node: str, nodes: Mapping[str, Node]) -> bool:
    known = nodes.get(node)
    return known is None or known.liveness == LOST


def _refused(refusal: Refusal | None) -> str | None:
    return None if refusal is None else f"can't be placed: {refusal.words}"


def _starting(replicas: Sequence[Replica]) -> str | None:
    """Return what is on its way, without what moves by itself: a route is sent when it changes."""
    there = [
        f"{one.id} is {one.state or 'of an unknown state'} on {one.shards[0].node}"
        for one in replicas
        if one.state not in {STOPPED, FAILED} and one.shards
    ]
    return f"starting: {some(there)}" if there else None


def _failed(replicas: Sequence[Replica]) -> str | None:
    failed = [one for one in replicas if one.state == FAILED]
    if not failed:
        return None
    last = max(failed, key=lambda one: (one.since is not None, one.since or 0.0, one.id))
    return f"{last.id} failed: {last.reason or 'no reason said'}"
