"""The base of every screen."""

from typing import NamedTuple

from textual.containers import Vertical

from llmgw.model.record import Record
from llmgw_tui import keys
from llmgw_tui.draw.places import Place
from llmgw_tui.draw.text import Pieces
from llmgw_tui.screens.desk import Desk
from llmgw_tui.store.fleet import Changes
from llmgw_tui.widgets.scrolled import Scrolled


class Heading(NamedTuple):
    """What stands in the panel's upper edge."""

    title: str
    notes: Pieces = ()
    shown: str = ""
    """How many there are, and which of them show."""


class Chosen(NamedTuple):
    """What copying takes: a name, and the records behind it."""

    name: str
    records: tuple[Record, ...] = ()


class View(Vertical):
    """One screen. It is made once and kept; `enter` says what it shows from now on."""

    own_keys: tuple[keys.Key, ...] = ()
    """Keys that work here beside those that work everywhere."""

    def __init__(self, desk: Desk, name: str) -> None:
        super().__init__(id=name, classes="view")
        self.desk = desk
        self.place = Place(name)

    @property
    def body(self) -> Scrolled:
        """Return what moving moves."""
        raise NotImplementedError

    @property
    def bodies(self) -> tuple[Scrolled, ...]:
        """Return what is dimmed when it is old."""
        return (self.body,)

    @property
    def asking(self) -> bool:
        """Say whether what it shows was asked for and is not there yet."""
        return False

    @property
    def outdated(self) -> bool:
        """Say whether what it shows is older than it should be, for a reason of its own."""
        return False

    def enter(self, place: Place) -> None:
        """Show this from now on."""
        self.place = place

    def leave(self) -> None:
        """Stop whatever runs only while the screen shows."""

    def update(self, changes: Changes) -> None:
        """Take in what changed; called only while the screen shows."""
        raise NotImplementedError

    def heading(self) -> Heading:
        """Return what stands in the panel's upper edge."""
        raise NotImplementedError

    def command(self) -> str:
        """Return the command line that shows the same."""
        raise NotImplementedError

    def target(self) -> Place | None:
        """Return where Enter leads."""
        return None

    def chosen(self) -> Chosen | None:
        """Return what copying takes."""
        return None

    def filtered(self) -> bool:
        """Say whether a filter or a search is on."""
        return False

    def clear_filter(self) -> bool:
        """Take a filter or a search away; say whether there was one."""
        return False

    def idle(self) -> frozenset[str]:
        """Return the actions of its keys that would do nothing now."""
        return frozenset()

    def crumb(self) -> str:
        """Return what the title bar calls this place; empty: the screen's name is enough."""
        return self.place.id

    def do(self, action: str) -> bool:
        """Do what a key of this screen stands for; say whether it is one of its own."""
        moves = {
            "up": lambda: self.body.move(-1),
            "down": lambda: self.body.move(1),
            "page_up": lambda: self.body.page(-1),
            "page_down": lambda: self.body.page(1),
            "start": self.body.to_start,
            "end": self.body.to_end,
        }
        move = moves.get(action)
        if move is None:
            return False
        move()
        return True
