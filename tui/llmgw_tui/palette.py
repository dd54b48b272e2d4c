"""What can be typed after `:`, found by what was typed."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from llmgw_tui.dialogs.pick import Choice
from llmgw_tui.draw.places import (
    KEYS,
    LOGS,
    MODEL,
    MODELS,
    NODE,
    NODES,
    OVERVIEW,
    REPLICA,
    REPLICAS,
    TRAFFIC,
    Place,
)
from llmgw_tui.draw.states import replica_state
from llmgw_tui.store.fleet import Fleet
from llmgw_tui.store.query import fuzzy
from llmgw_tui.themes.palette import PALETTES

SCREENS = (OVERVIEW, NODES, REPLICAS, MODELS, LOGS, TRAFFIC, KEYS)
"""The screens of the side bar, in the order of their numbers."""
FILTERED = (NODES, REPLICAS, MODELS, TRAFFIC, KEYS)
THINGS = (NODE, REPLICA, MODEL)
MOST = 200
"""Choices that are offered; whoever looks for one of more types another letter."""


class Hands(Protocol):
    """What a command can do."""

    fleet: Fleet

    def go(self, place: Place) -> None:
        """Open a place."""
        ...

    def use(self, palette: str) -> None:
        """Paint with another palette."""
        ...

    def act(self, action: str) -> None:
        """Do what a key stands for."""
        ...


def choices(hands: Hands, text: str) -> Sequence[Choice]:
    """Return what fits a text, best first.

    `nodes h200` opens a list with a filter; letters in their order find everything else.
    """
    typed = text.strip()
    word, _, rest = typed.partition(" ")
    lists = [name for name in FILTERED if name.startswith(word.lower())] if rest else []
    filtered = [_filtered(hands, name, rest.strip().lstrip("/")) for name in lists]
    ranked: list[tuple[int, int, Choice]] = []
    for index, choice in enumerate(_all(hands)):
        distance = fuzzy(typed.replace(" ", ""), choice.label.replace(" ", ""))
        if distance is not None:
            ranked.append((distance, index, choice))
    ranked.sort(key=lambda one: one[:2])
    things = [choice for _, _, choice in ranked[:MOST]]
    return [*things, *filtered] if word in THINGS else [*filtered, *things]


def _filtered(hands: Hands, name: str, text: str) -> Choice:
    return Choice(f"{name} /{text}", "with that filter", partial(hands.go, Place(name, "", text)))


def _all(hands: Hands) -> Iterable[Choice]:
    for number, name in enumerate(SCREENS, 1):
        yield Choice(name, f"screen {number}", partial(hands.go, Place(name)))
    fleet = hands.fleet
    for name in fleet.nodes:
        yield Choice(f"node {name}", fleet.state_of(name), _to(hands, NODE, name))
    for name, entry in fleet.models.items():
        yield Choice(f"model {entry.model.name}", "", _to(hands, MODEL, name))
    for name, replica in fleet.replicas.items():
        word = replica_state(replica, fleet.nodes).word
        yield Choice(f"replica {name}", word, _to(hands, REPLICA, name))
    for name in fleet.nodes:
        yield Choice(f"logs {name}", "the agent's log", _to(hands, LOGS, name))
    for palette in PALETTES.values():
        yield Choice(f"theme {palette.name}", palette.words, partial(hands.use, palette.name))
    for action, words in (
        ("export", "write this screen to a file"),
        ("relist", "list anew"),
        ("repaint", "paint anew"),
        ("help", "keys"),
        ("quit", "leave"),
    ):
        yield Choice(action, words, partial(hands.act, action))


def _to(hands: Hands, screen: str, name: str) -> Callable[[], None]:
    return partial(hands.go, Place(screen, name))
