"""Where one has been, what keys do, what can be typed after a colon."""

from llmgw_tui import keys
from llmgw_tui.draw.places import LOGS, NODE, NODES, OVERVIEW, REPLICA, Place
from llmgw_tui.history import MOST, History
from llmgw_tui.palette import SCREENS, choices
from llmgw_tui.screens.lists import LISTS
from llmgw_tui.screens.logs import LogsView
from llmgw_tui.screens.pages import NodeView, OverviewView
from llmgw_tui.screens.view import View
from llmgw_tui.store.fleet import Fleet
from llmgw_tui.themes.palette import PALETTES
from tests.unit.tui.seen import fleet_of


class Hands:
    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.done: list[object] = []

    def go(self, place: Place) -> None:
        self.done.append(place)

    def use(self, palette: str) -> None:
        self.done.append(palette)

    def act(self, action: str) -> None:
        self.done.append(action)


def test_escape_leads_back_the_way_one_came() -> None:
    history = History(Place(OVERVIEW))
    history.go(Place(NODE, "a"))
    history.go(Place(REPLICA, "r"))
    history.go(Place(REPLICA, "r"))
    assert history.back()
    assert history.here == Place(NODE, "a")
    assert history.root == NODES
    assert history.back()
    assert not history.back()


def test_a_trail_has_an_end() -> None:
    history = History(Place(OVERVIEW))
    for number in range(3 * MOST):
        history.go(Place(NODE, str(number)))
    steps = 0
    while history.back():
        steps += 1
    assert steps == MOST - 1


def test_no_key_means_two_things_on_one_screen() -> None:
    views: tuple[type[View], ...] = (*LISTS.values(), OverviewView, NodeView, LogsView)
    for view in views:
        names = [
            name for key in (*view.own_keys, *keys.MOVE, *keys.EVERYWHERE) for name in key.names
        ]
        assert len(names) == len(set(names)), view


def test_every_key_is_in_the_help_and_has_words() -> None:
    table = (*keys.MOVE, *keys.EVERYWHERE, *keys.LIST, *keys.NODE, *keys.LOG)
    assert all(key.words and key.shown and key.names for key in table)
    assert keys.helped(keys.LIST)[0] == ("/", "filter")


def test_the_palette_finds_screens_things_themes_and_filters() -> None:
    fleet, _ = fleet_of("mixed")
    hands = Hands(fleet)
    assert [choice.label for choice in choices(hands, "")][: len(SCREENS)] == list(SCREENS)
    assert choices(hands, "nodes")[0].label == "nodes"
    assert choices(hands, "node gpu-03")[0].label == "node gpu-03"
    assert choices(hands, "ngp16")[0].label == "node gpu-16"
    assert {f"theme {name}" for name in PALETTES} <= {c.label for c in choices(hands, "theme")}
    assert not choices(hands, "zzzz")
    choices(hands, "nod h100 !lost")[0].run()
    choices(hands, "logs gpu-01")[0].run()
    choices(hands, "theme light")[0].run()
    choices(hands, "quit")[0].run()
    assert hands.done == [
        Place(NODES, "", "h100 !lost"),
        Place(LOGS, "gpu-01"),
        "light",
        "quit",
    ]
