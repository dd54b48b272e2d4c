"""The queue of requests that wait for a model: bounded, in order, told."""

from llmgw.gateway.cells import Cells
from llmgw.gateway.proxy.endpoints import Engines, Way
from llmgw.gateway.proxy.held import Held
from llmgw.gateway.refusals import Refusal
from llmgw.model.gateway import Endpoint, Route


class Asked:
    """A request that notes what it is told."""

    def __init__(self, number: int, told: list[tuple[int, str]]) -> None:
        self.number = number
        self.told = told

    def go_on(self, way: Way) -> None:
        self.told.append((self.number, "goes on"))

    def give_up(self, refusal: Refusal) -> None:
        self.told.append((self.number, refusal.code))


def way(*, serves: bool = False, holds: bool = True) -> dict[str, Way]:
    endpoints = (Endpoint(replica="m-1", host="192.0.2.1", port=1),) if serves else ()
    route = Route(model="m", endpoints=endpoints, holds=holds and not serves)
    return {"m": Engines(Cells.private()).way(route, {"m-1": 0})}


def test_they_go_on_in_the_order_in_which_they_came():
    told: list[tuple[int, str]] = []
    held = Held(lambda: None)
    asked = [Asked(number, told) for number in range(4)]
    assert all(held.hold(one, "m", 10) for one in asked)
    held.leave(asked[1], "m")
    held.look(way(), stopped=False)
    assert told == []
    held.look(way(serves=True), stopped=False)
    assert told == [(0, "goes on"), (2, "goes on"), (3, "goes on")]
    assert held.counts() == {}


def test_only_so_many_wait():
    held = Held(lambda: None)
    told: list[tuple[int, str]] = []
    assert held.hold(Asked(1, told), "m", 1)
    assert not held.hold(Asked(2, told), "m", 1)
    assert not held.hold(Asked(3, told), "other", 0)
    assert held.counts() == {"m": 1}


def test_each_change_is_told_and_what_is_over_is_not():
    changes: list[dict[str, int]] = []
    held = Held(lambda: changes.append(held.counts()))
    told: list[tuple[int, str]] = []
    one, two = Asked(1, told), Asked(2, told)
    held.hold(one, "m", 10)
    held.hold(two, "m", 10)
    held.leave(one, "m")
    held.leave(one, "m")
    held.look(way(holds=False), stopped=False)
    assert changes == [{"m": 1}, {"m": 2}, {"m": 1}, {}]
    assert told == [(2, "no_replica")]
    held.hold(one, "m", 10)
    held.look(way(), stopped=True)
    assert told[-1] == (1, "system_stopped")
