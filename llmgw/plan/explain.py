"""`explain`: what placement says of every node for one more replica of a model."""

from dataclasses import replace

from llmgw.model.catalog import Model, Profile
from llmgw.model.replica import LEAVING
from llmgw.plan.backoff import held_back
from llmgw.plan.placement.lonely import refusals
from llmgw.plan.placement.networks import wiring
from llmgw.plan.placement.place import judge, seated
from llmgw.plan.placement.request import Request, request
from llmgw.plan.placement.room import Room
from llmgw.plan.placement.scores import scores
from llmgw.plan.placement.several import Group, find_group, refusal_of
from llmgw.plan.records import FITS, Candidate, Desired, Observed, Verdict
from llmgw.plan.weights_known import WeightsKnown
from llmgw.plan.words import some


def explain(
    model: Model,
    profile: Profile,
    desired: Desired,
    observed: Observed,
    now: float,
) -> tuple[Candidate, ...]:
    """Return every node with its verdict, and with scores and devices where it fits, by id.

    Args:
        model: the catalog's.
        profile: one of its profiles.
        desired: what the cluster is told.
        observed: the fleet at this moment.
        now: monotonic seconds, on the clock of the failures in `observed`.
    """
    failures = (one for one in observed.failures if one.model == model.name)
    held = held_back(failures, now)
    wanted = request(
        model,
        profile,
        ordered=desired.settings.engines,
        held_back={**held.waiting, **held.passed_over},
        device_memory_bytes=WeightsKnown(observed.nodes).least_on_device(model, profile),
    )
    leaving = {one.id for one in observed.replicas if one.state in LEAVING}
    room = Room(observed, leaving)
    found = of_each(wanted, room)
    again = len(held.resting) < len(held.passed_over)
    if not again or any(one.verdict.kind == FITS for one in found):
        return found
    # As a pass would: where it failed too often it is tried again when nothing else fits.
    return of_each(replace(wanted, held_back={**held.waiting, **held.resting}), room)


def of_each(wanted: Request, room: Room) -> tuple[Candidate, ...]:
    """Return every node with its verdict on one more replica, by id."""
    if wanted.profile.nodes > 1:
        return of_several(wanted, room)
    return tuple(judge(wanted, room.spaces[name]) for name in sorted(room.spaces))


def of_several(wanted: Request, room: Room) -> tuple[Candidate, ...]:
    """Return every node's part in the group of a replica of several nodes, by id.

    The words of a node that fits say which group was taken, which rank it has there, or why others
    were.
    """
    group = find_group(wanted, room)
    if group is None:
        refused = refusals(wanted, room)
        return tuple(Candidate(node=name, verdict=refused[name]) for name in sorted(refused))
    seats = {seat.node: seat for seat in seated(group, room.spaces).seats}
    ranks = {member.node: rank for rank, member in enumerate(group.members)}
    found = []
    for name in sorted(room.spaces):
        space = room.spaces[name]
        refused_ = refusal_of(wanted, space, room)
        if refused_ is not None:
            found.append(Candidate(node=name, verdict=refused_))
            continue
        words = _part(name, ranks.get(name), group, wanted, room)
        found.append(
            Candidate(
                node=name,
                verdict=Verdict(kind=FITS, rule="all", words=f"{name}: {words}"),
                scores=scores(wanted, space),
                devices=seats[name].devices if name in seats else (),
            )
        )
    return tuple(found)


def _part(name: str, rank: int | None, group: Group, wanted: Request, room: Room) -> str:
    """Return what a node that fits is to the group, and why."""
    if rank is not None:
        return f"rank {rank} of {len(group.members)} on {group.network.words}{_why(group)}"
    there = wiring(room, wanted.profile.fabric).of[name]
    mine = there.get(group.network)
    if mine is None:
        on = some([network.words for network in sorted(there)])
        return f"is on {on}, and the group on {group.network.words}"
    if mine.short:
        return f"is on {group.network.words} by a cable that trained short"
    return f"is on {group.network.words} too, and others come first"


def _why(group: Group) -> str:
    """Return what spoke for a group, beside the scores of its nodes."""
    words = f", {group.of} nodes that fit are there" if group.of > len(group.members) else ""
    leaves = {leaf for member in group.members for leaf in member.attachment.leaf}
    same = len({member.attachment.leaf for member in group.members}) == 1
    if leaves:
        beside = "one leaf" if same else f"{group.leaves} leaves"
        words += f", on {beside} ({some(sorted(leaves))})"
    if group.short:
        words += f", {group.short} of them by a cable that trained short"
    return words
