"""What holds of every placement, over fleets of every kind."""

import random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.model.catalog import CatalogEntry, Model
from llmgw.model.node import Filesystem
from llmgw.model.settings import Settings
from llmgw.plan.check import check
from llmgw.plan.explain import explain
from llmgw.plan.placement.place import Placement, book, judge, place
from llmgw.plan.placement.request import Request, request
from llmgw.plan.placement.room import Room
from llmgw.plan.placement.scores import total
from llmgw.plan.records import FITS, Desired, NodeRoom, Observed, Plan, Refusal
from llmgw.plan.start import start
from tests.unit.plan.any_fleets import any_model, any_room, fleets, models, needs, seeds

MANY = settings(max_examples=80, deadline=None)


def asked(one: Model, need: int | None = None) -> Request:
    return request(one, one.profiles[0], ordered=Settings().engines, device_memory_bytes=need)


def desired(*wanted: Model) -> Desired:
    entries = tuple(
        CatalogEntry(model=one, version=1, changed=0.0, changed_by="ana") for one in wanted
    )
    return Desired(models=entries, settings=Settings())


@MANY
@given(fleets, models, needs)
def test_a_placement_passes_the_lint_and_a_refusal_lists_every_node_once(
    fleet: Observed, one: Model, need: int | None
):
    wanted = asked(one, need)
    answer = place(wanted, Room(fleet))
    if isinstance(answer, Refusal):
        assert [each.node for each in answer.candidates] == sorted(r.node.id for r in fleet.nodes)
        assert all(each.verdict.kind != FITS for each in answer.candidates)
        assert all(each.verdict.words.startswith(f"{each.node}: ") for each in answer.candidates)
        return
    assert len({seat.node for seat in answer.seats}) == one.profiles[0].nodes
    assert all(len(seat.devices) == one.profiles[0].gpus for seat in answer.seats)
    step = start("new", wanted, "f", answer, "")
    plan = Plan(number=1, parent=None, steps=(step,), sentence="")
    assert check(plan, desired(one), fleet) == ()


@MANY
@given(fleets, models, needs, st.integers())
def test_the_order_in_which_nodes_come_changes_nothing(
    fleet: Observed, one: Model, need: int | None, seed: int
):
    shuffled = list(fleet.nodes)
    random.Random(seed).shuffle(shuffled)
    other = msgspec.structs.replace(fleet, nodes=tuple(shuffled))
    assert place(asked(one, need), Room(fleet)) == place(asked(one, need), Room(other))


@MANY
@given(fleets, st.lists(models, max_size=4), models, needs)
def test_on_one_node_the_best_of_those_that_fit_is_taken(
    fleet: Observed, before: list[Model], one: Model, need: int | None
):
    """Whatever rankings were kept from earlier placements of the same plan."""
    room = Room(fleet)
    for number, other in enumerate(before):
        _place_and_book(f"r{number}", asked(other), room)
    wanted = asked(msgspec.structs.replace(one, profiles=(_on_one_node(one),)), need)
    found = [judge(wanted, space) for space in room.spaces.values()]
    fits = [each.node for each in found if each.verdict.kind == FITS]
    answer = place(wanted, room)
    if not fits:
        assert isinstance(answer, Refusal)
        assert list(answer.candidates) == found
        return
    assert isinstance(answer, Placement)
    best = min((-total(wanted, room.spaces[name]), name) for name in fits)[1]
    assert answer.seats[0].node == best


@MANY
@given(fleets, models, needs, st.data())
def test_more_free_room_turns_no_placement_into_a_refusal(
    fleet: Observed, one: Model, need: int | None, data: st.DataObject
):
    wanted = asked(one, need)
    if isinstance(place(wanted, Room(fleet)), Refusal):
        return
    number = data.draw(st.integers(0, len(fleet.nodes) - 1))
    there = fleet.nodes[number]
    how = data.draw(st.sampled_from(("freed", "unused", "well", "larger", "another")))
    if how == "another":
        nodes = (*fleet.nodes, any_room("n9", data.draw(seeds)))
    else:
        nodes = (*fleet.nodes[:number], _with_more(there, how), *fleet.nodes[number + 1 :])
    more = msgspec.structs.replace(fleet, nodes=nodes)
    answer = place(wanted, Room(more))
    assert isinstance(answer, Placement), answer.words


@MANY
@given(
    fleets,
    st.lists(seeds, min_size=1, max_size=2),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1), needs), min_size=2, max_size=12),
)
def test_what_is_booked_is_never_given_again(
    fleet: Observed, kinds: list[int], wanted: list[tuple[str, int, int | None]]
):
    """Whichever models ask for the same, one after the other."""
    room = Room(fleet)
    steps = []
    asked_for: list[Model] = []
    for number, (name, kind, need) in enumerate(wanted):
        one = any_model(f"{name}{kind}", kinds[kind % len(kinds)])
        asked_for.append(one)
        answer = place(asked(one, need), room)
        if isinstance(answer, Placement):
            steps.append(start(f"r{number}", asked(one, need), "f", answer, ""))
            book(f"r{number}", asked(one, need), answer, room)
    catalog = {one.name: one for one in asked_for}
    plan = Plan(number=1, parent=None, steps=tuple(steps), sentence="")
    problems = [
        p for p in check(plan, desired(*catalog.values()), fleet) if "priority" not in p.path
    ]
    assert problems == []
    for space in room.spaces.values():
        held = [uuid for booking in space.bookings for uuid in booking.devices]
        assert len(held) == len(set(held))
        cards = {d.uuid: d.card_uuid for d in space.node.inventory.devices or ()}
        assert not {cards[uuid] for uuid in held} & set(held)
        _within(space.node.inventory.filesystems, space.fetching)


@MANY
@given(fleets, models)
def test_what_is_explained_is_what_is_done(fleet: Observed, one: Model):
    found = explain(one, one.profiles[0], desired(one), fleet, 0.0)
    assert [each.node for each in found] == sorted(room.node.id for room in fleet.nodes)
    answer = place(asked(one), Room(fleet))
    fits = {each.node: each for each in found if each.verdict.kind == FITS}
    assert bool(fits) is isinstance(answer, Placement)
    if isinstance(answer, Refusal):
        assert found == answer.candidates
        return
    for rank, seat in enumerate(answer.seats):
        assert fits[seat.node].devices == seat.devices
        assert len(answer.seats) == 1 or f"rank {rank} of" in fits[seat.node].verdict.words


def _on_one_node(one: Model):
    return msgspec.structs.replace(one.profiles[0], nodes=1)


def _place_and_book(replica: str, wanted: Request, room: Room) -> None:
    answer = place(wanted, room)
    if isinstance(answer, Placement):
        book(replica, wanted, answer, room)


def _with_more(there: NodeRoom, how: str) -> NodeRoom:
    inventory = there.node.inventory
    match how:
        case "freed":
            return msgspec.structs.replace(there, bookings=there.bookings[1:])
        case "unused":
            return msgspec.structs.replace(there, readings=None)
        case "well":
            devices = inventory.devices and tuple(
                msgspec.structs.replace(device, unhealthy=()) for device in inventory.devices
            )
            inventory = msgspec.structs.replace(inventory, devices=devices)
        case _:
            host = inventory.host and msgspec.structs.replace(
                inventory.host,
                memory_bytes=inventory.host.memory_bytes and inventory.host.memory_bytes * 2,
                cpus=inventory.host.cpus and inventory.host.cpus * 2,
            )
            inventory = msgspec.structs.replace(inventory, host=host)
    return msgspec.structs.replace(
        there, node=msgspec.structs.replace(there.node, inventory=inventory)
    )


def _within(filesystems: tuple[Filesystem, ...] | None, fetching: dict[str, int]) -> None:
    free = [one.free_bytes for one in filesystems or () if one.free_bytes is not None]
    assert not free or sum(fetching.values()) <= max(free)
