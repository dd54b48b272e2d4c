"""`routes`: where requests for each model go, from fleet, catalog and settings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from llmgw.model.catalog import CatalogEntry, Model, Profile
from llmgw.model.gateway import Endpoint, Route
from llmgw.model.node import LOST, Node
from llmgw.model.published import published
from llmgw.model.replica import LEAVING, OVER, Replica
from llmgw.model.settings import Settings
from llmgw.model.shard import FAILED
from llmgw.model.shard import READY as SHARD_READY
from llmgw.plan.records import Refusal, Want
from llmgw.plan.scaling import may_run, on_demand, waiting_helps
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
    asked = _Asked(
        refusals={(one.model, one.profile): one for one in refusals},
        wants={(want.model, want.profile): want for want in wants},
        stopped=settings.serving.stopped,
    )
    of_catalog = tuple(
        _route(
            entry.model,
            () if asked.stopped else by_model.get(entry.model.name, ()),
            by_id,
            key,
            asked,
        )
        for entry in sorted(models, key=lambda one: one.model.name)
    )
    return published(of_catalog, settings.publishing, stopped=asked.stopped)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is wanted of all models, and what of it can't be placed. By model and profile."""

    refusals: Mapping[tuple[str, str], Refusal]
    wants: Mapping[tuple[str, str], Want]
    stopped: bool

    def want(self, model: Model, profile: Profile) -> Want | None:
        return self.wants.get((model.name, profile.name))

    def refusal(self, model: Model, profile: Profile) -> Refusal | None:
        return self.refusals.get((model.name, profile.name))

    def refused(self, model: Model, profile: Profile) -> str:
        """Return why a profile can't be placed; empty when nothing says so."""
        refusal, want = self.refusal(model, profile), self.want(model, profile)
        return refusal.words if refusal is not None else want.refused if want is not None else ""


def _route(
    model: Model,
    replicas: Sequence[Replica],
    nodes: Mapping[str, Node],
    key: Key,
    asked: _Asked,
) -> Route:
    serves = {profile.name: profile.concurrency for profile in model.profiles}
    endpoints = tuple(
        endpoint for one in replicas if (endpoint := _endpoint(one, nodes, key, serves)) is not None
    )
    comes = any(one.state not in OVER | LEAVING for one in replicas)
    wanted = sum(_wanted(model, profile, replicas, asked) for profile in model.profiles)
    nobody = not (endpoints or asked.stopped)
    return Route(
        model=model.name,
        endpoints=endpoints,
        wanted=wanted,
        reason=None if endpoints else _reason(model, replicas, wanted, asked),
        holds=nobody and any(map(on_demand, model.profiles)) and (comes or _may(model, asked)),
    )


def _wanted(model: Model, profile: Profile, replicas: Iterable[Replica], asked: _Asked) -> int:
    """Return how many are wanted: of what scaling has not looked at yet, as many as run."""
    want = asked.want(model, profile)
    if want is not None:
        return want.replicas
    if not on_demand(profile):
        return profile.replicas
    over = OVER | LEAVING
    return sum(one.profile == profile.name and one.state not in over for one in replicas)


def _may(model: Model, asked: _Asked) -> bool:
    """Say whether a request may be served soon by one of the profiles."""
    for profile in may_run(model):
        refusal = asked.refusal(model, profile)
        if waiting_helps(refusal) if refusal is not None else not asked.refused(model, profile):
            return True
    return False


def _reason(model: Model, replicas: Sequence[Replica], wanted: int, asked: _Asked) -> str:
    """Return why nothing serves a model."""
    if asked.stopped:
        return "the cluster is stopped"
    reason = _starting(replicas) or _refused(model, asked)
    if reason is None and not wanted:
        reason = _resting(model, asked)
    return reason or _leaving(replicas) or _failed(replicas) or _not_there(wanted)


def _refused(model: Model, asked: _Asked) -> str | None:
    """Return why a model can't be placed: by each profile that was tried, where it has several."""
    found = [
        (profile.name, words)
        for profile in model.profiles
        if (words := asked.refused(model, profile))
    ]
    if not found:
        return None
    if len(may_run(model)) == 1:
        return f"can't be placed: {found[0][1]}"
    return f"can't be placed: {'; '.join(f'{name}: {words}' for name, words in found)}"


def _resting(model: Model, asked: _Asked) -> str | None:
    """Return why a model that a request starts has no replica; None: no request starts it."""
    for profile in filter(on_demand, model.profiles):
        want = asked.want(model, profile)
        words = want.words if want is not None else "its replicas are not counted yet"
        return f"{words}: a request starts it"
    return None


def _not_there(wanted: int) -> str:
    return "not started yet" if wanted else "no replica of it is wanted"


def _endpoint(
    replica: Replica, nodes: Mapping[str, Node], key: Key, serves: Mapping[str, int | None]
) -> Endpoint | None:
    """Return where a replica answers: at its rank 0; None when it can't be routed to.

    Args:
        replica: as the fleet rebuilt it.
        nodes: all nodes.
        key: gives its key.
        serves: how many requests a replica of each profile serves at once.
    """
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
        concurrency=serves.get(replica.profile or ""),
    )


def _lost(node: str, nodes: Mapping[str, Node]) -> bool:
    known = nodes.get(node)
    return known is None or known.liveness == LOST


def _starting(replicas: Sequence[Replica]) -> str | None:
    """Return what is on its way, without what moves by itself: a route is sent when it changes."""
    there = _states(one for one in replicas if one.state not in OVER | LEAVING)
    return f"starting: {some(there)}" if there else None


def _leaving(replicas: Sequence[Replica]) -> str | None:
    there = _states(one for one in replicas if one.state in LEAVING)
    return f"stopping: {some(there)}" if there else None


def _states(replicas: Iterable[Replica]) -> list[str]:
    return [
        f"{one.id} is {one.state or 'of an unknown state'} on {one.shards[0].node}"
        for one in replicas
        if one.shards
    ]


def _failed(replicas: Sequence[Replica]) -> str | None:
    failed = [one for one in replicas if one.state == FAILED]
    if not failed:
        return None
    last = max(failed, key=lambda one: (one.since is not None, one.since or 0.0, one.id))
    return f"{last.id} failed: {last.reason or 'no reason said'}"
