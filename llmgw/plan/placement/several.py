"""A replica of several nodes: which of them form a group, on which one network (PLC-7).

Inside one NVLink domain first, then on one InfiniBand fabric, then on one RoCE network. In a group
all devices are of one class. Nodes whose cable trained short come last, then those of one leaf
are taken together, then the best.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from llmgw.model.availability import given_out, is_instance
from llmgw.plan.placement.filters import first_refusal
from llmgw.plan.placement.networks import KINDS, RULE, Attachment, Network, Wiring, wiring
from llmgw.plan.placement.rated import worths
from llmgw.plan.placement.request import Request
from llmgw.plan.placement.room import Room, Space
from llmgw.plan.records import NOT_NOW, Verdict


class Member(NamedTuple):
    """A node that can take one shard, on one network."""

    node: str
    worth: int
    attachment: Attachment

    @property
    def order(self) -> tuple[int, str]:
        """Return what is taken first: the best; of equals the first by id."""
        return (-self.worth, self.node)


@dataclass(frozen=True, slots=True)
class Group:
    """The nodes of one replica, rank 0 first, and the one network that they share."""

    network: Network
    members: tuple[Member, ...]
    request: Request
    """For the one class of devices that all of them give."""
    of: int
    """How many nodes that fit are on the network."""

    @property
    def leaves(self) -> int:
        """Return how many leaves it is spread over; nodes of no known leaf count as one each."""
        known = {one.attachment.leaf for one in self.members if one.attachment.leaf}
        return len(known) + sum(not one.attachment.leaf for one in self.members)

    @property
    def short(self) -> int:
        """Return how many of its nodes have a cable that trained short."""
        return sum(one.attachment.short for one in self.members)


def find_group(request: Request, room: Room) -> Group | None:
    """Return the best group of nodes for one more replica; None: there is none."""
    there = wiring(room, request.profile.fabric).kinds
    for kind in KINDS:
        groups = list(_groups(request, room, kind)) if kind in there else []
        if groups:
            return min(groups, key=_cost)[1]
    return None


def refusal_of(request: Request, space: Space, room: Room) -> Verdict | None:
    """Return why one node can't take a shard of the replica, whatever others can."""
    refused = first_refusal(request, space) or request.held_back.get(space.node.id)
    if refused is not None:
        return refused
    return not_reached(space, wiring(room, request.profile.fabric))


def not_reached(space: Space, on: Wiring) -> Verdict | None:
    """Return why a node can't be reached by others: it is on no network, or has no address."""
    node = space.node
    if node.id in on.refused:
        return on.refused[node.id]
    return no_address(space)


def no_address(space: Space) -> Verdict | None:
    """Return the refusal of a node that has not said where others reach it."""
    if space.node.address is not None:
        return None
    words = f"{space.node.id}: its address is not known"
    return Verdict(kind=NOT_NOW, rule=RULE, words=words)


def _groups(request: Request, room: Room, kind: int) -> Iterator[tuple[int, Group]]:
    """Yield the best group of each network of a kind and class, with the place of the class."""
    need = request.profile.nodes
    for place, name in enumerate(classes(request, room)):
        alike = of_class(request, name)
        for network, there in members(alike, room, (kind,)).items():
            if len(there) >= need and request.among in {None, *(one.node for one in there)}:
                chosen = _with(request.among, preferred(there, need), there)
                if request.more:
                    chosen = _leaving_others(chosen, there, alike, room)
                yield place, grouped(network, chosen, alike, len(there))


def _with(among: str | None, chosen: list[Member], there: Sequence[Member]) -> list[Member]:
    """Return so many nodes with the one that has to be among them."""
    if among is None or any(one.node == among for one in chosen):
        return chosen
    first = next(one for one in there if one.node == among)
    others = [one for one in there if one is not first]
    return [first, *preferred(others, len(chosen) - 1)]


def _leaving_others(
    chosen: list[Member], there: Sequence[Member], request: Request, room: Room
) -> list[Member]:
    """Return those nodes, or those with most room where too few groups were left without them.

    Which nodes are best for one replica may leave the next one two cards on the same node.
    """
    need, names = len(chosen), {one.node for one in chosen}
    shards = {one.node: _shards(request, room.spaces[one.node], request.more + 1) for one in there}
    before = _groups_of(shards.values(), need, request.more + 1)
    after = (number - (node in names) for node, number in shards.items())
    if request.among is not None or _groups_of(after, need, request.more) >= before - 1:
        return chosen
    return heapq.nsmallest(need, there, key=lambda one: (-shards[one.node], *one.order))


def _shards(request: Request, space: Space, most: int) -> int:
    """Return how many shards fit beside each other on a node on which one does."""
    profile, host = request.profile, space.node.inventory.host
    free = space.free(request.device_memory_bytes)
    number = len(free.get(profile.device_classes[0], ())) // profile.gpus
    if host is not None and host.cpus is not None and profile.cpu_cores:
        number = min(number, (host.cpus - space.cores) // profile.cpu_cores)
    return max(1, min(number, most))


def _groups_of(shards: Iterable[int], need: int, most: int) -> int:
    """Return how many groups of so many nodes there can be, no node twice in one of them."""
    there = list(shards)
    fitting = (
        count for count in range(most, 0, -1)
        if sum(min(count, number) for number in there) >= count * need
    )  # fmt: skip
    return next(fitting, 0)


def grouped(network: Network, members: Iterable[Member], request: Request, of: int) -> Group:
    """Return the nodes of a replica, rank 0 first."""
    return Group(network, tuple(sorted(members, key=_rank)), request, of)


def members(
    request: Request, room: Room, kinds: Collection[int] = KINDS
) -> dict[Network, list[Member]]:
    """Return the nodes that can take a shard, by each network of some kinds that they are on."""
    on = wiring(room, request.profile.fabric)
    found: dict[Network, list[Member]] = {}
    for node, worth in worths(request, room).items():
        if room.spaces[node].node.address is None:
            continue
        for network, attachment in on.of.get(node, {}).items():
            if network.kind in kinds:
                found.setdefault(network, []).append(Member(node, worth, attachment))
    return found


def of_class(request: Request, name: str) -> Request:
    """Return a request for devices of one class alone."""
    profile = msgspec.structs.replace(request.profile, device_classes=(name,))
    return replace(request, profile=profile)


def classes(request: Request, room: Room) -> Sequence[str]:
    """Return the classes that will do, in order: those named, else all cards that there are."""
    if request.profile.device_classes:
        return tuple(dict.fromkeys(request.profile.device_classes))
    kept = room.kept.get("classes")
    if not isinstance(kept, tuple):
        found = {
            device.device_class or ""
            for space in room.spaces.values()
            for device in given_out(space.node.inventory.devices or ())
            if not is_instance(device)
        }
        kept = room.kept["classes"] = tuple(sorted(found))
    return kept


def preferred(members: Sequence[Member], need: int) -> list[Member]:
    """Return so many of a network's nodes: whole cables first, one leaf, the best."""
    whole = [one for one in members if not one.attachment.short]
    if len(whole) >= need:
        return _of_few_leaves(whole, need)
    short = (one for one in members if one.attachment.short)
    return [*whole, *heapq.nsmallest(need - len(whole), short, key=_order)]


def _of_few_leaves(members: Sequence[Member], need: int) -> list[Member]:
    """Return the best nodes of one leaf; where none has enough, of as few leaves as may be."""
    leaves: dict[tuple[str, ...], list[Member]] = {}
    for one in members:
        # Where a node is plugged in may be unknown: it is beside no other then.
        leaves.setdefault(one.attachment.leaf or (f"\0{one.node}",), []).append(one)
    if len(leaves) == len(members):
        return heapq.nsmallest(need, members, key=_order)
    large = [
        heapq.nsmallest(need, found, key=_order) for found in leaves.values() if len(found) >= need
    ]
    if large:
        return min(large, key=lambda found: (-sum(one.worth for one in found), _names(found)))
    taken: list[Member] = []
    for found in sorted(leaves.values(), key=lambda one: (-len(one), min(map(_order, one)))):
        taken += heapq.nsmallest(need - len(taken), found, key=_order)
    return taken


def _order(member: Member) -> tuple[int, str]:
    return member.order


def _rank(member: Member) -> tuple[bool, tuple[str, ...], str]:
    """Order ranks: neighbours on one leaf beside each other, by id; unknown leaves last."""
    leaf = member.attachment.leaf
    return (not leaf, leaf, member.node)


def _names(members: Iterable[Member]) -> tuple[str, ...]:
    return tuple(sorted(one.node for one in members))


def _cost(found: tuple[int, Group]) -> tuple[int, int, int, int, tuple[str, ...], str]:
    """Return what speaks against a group: cables, leaves, class, worth; then ids decide."""
    place, group = found
    worth = sum(one.worth for one in group.members)
    return group.short, group.leaves, place, -worth, _names(group.members), group.network.name
