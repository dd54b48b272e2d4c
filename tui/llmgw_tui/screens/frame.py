"""The one Textual screen: the frame, with every view made once and shown by name."""

from collections.abc import Mapping
from typing import Protocol

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip

from llmgw_tui.draw import help as help_page
from llmgw_tui.screens.view import View
from llmgw_tui.widgets.bars import (
    LEAST_HEIGHT,
    LEAST_WIDTH,
    Foot,
    Head,
    KeyBar,
    Over,
    SideBar,
    TitleBar,
    TooSmall,
)
from llmgw_tui.widgets.drawn import Brush, Drawn
from llmgw_tui.widgets.scrolled import Scrolled

WIDE = 100
"""Columns from which the side bar shows."""
TALL = 30
"""Lines from which panels have edges."""


class Hands(Protocol):
    """Who takes what a person does; the console is."""

    def ready(self) -> None:
        """Take in that everything is there to be shown."""
        ...

    def press(self, key: str, character: str | None) -> None:
        """Take a key."""
        ...

    def paste(self, text: str) -> None:
        """Take pasted text."""
        ...

    def act(self, action: str) -> None:
        """Do what a key stands for."""
        ...

    def digit(self, key: str) -> None:
        """Open the screen with that number."""
        ...

    def resized(self) -> None:
        """Take in another size, or that a dialog was closed."""
        ...


class Frame(Screen[None], inherit_bindings=False):
    """Title bar, side bar, panel, key bar, and what lies over them."""

    def __init__(self, brush: Brush, views: Mapping[str, View], hands: Hands) -> None:
        super().__init__()
        self.brush = brush
        self.views = views
        self.hands = hands
        self.title_bar = TitleBar(brush, id="title")
        self.side = SideBar(brush, hands.digit)
        self.side.legend = help_page.legend()
        self.head = Head(brush, id="head")
        self.foot = Foot(brush, id="foot")
        self.key_bar = KeyBar(brush, hands.act)
        self.over = Over(brush, hands.resized)
        self.small = TooSmall(brush, id="small")

    def compose(self) -> ComposeResult:
        """Yield everything; views are shown one at a time."""
        yield self.title_bar
        with Horizontal(id="main"):
            yield self.side
            with Vertical(id="panel"):
                yield self.head
                yield from self.views.values()
                yield self.foot
        yield self.key_bar
        yield self.over
        yield self.small

    def on_mount(self) -> None:
        """Show the first screen, laid out for the size that is known by now."""
        self._adapt(self.app.size)
        self.hands.ready()

    def show(self, name: str) -> None:
        """Show one view and hide the others."""
        with self.app.batch_update():
            for other, view in self.views.items():
                view.display = other == name

    def edges(self) -> tuple[Drawn, ...]:
        """Return what stands around the view, beside the title bar."""
        return (self.side, self.head, self.foot, self.key_bar)

    def strips(self) -> list[Strip]:
        """Return what the screen shows, for writing to a file and for tests."""
        return self._compositor.render_strips()

    def on_resize(self, event: events.Resize) -> None:
        """Choose what shows at this size."""
        self._adapt(event.size)
        self.over.place()
        self.hands.resized()

    def _adapt(self, size: Size) -> None:
        width, height = size
        self.set_class(width >= WIDE, "-wide")
        self.set_class(width < LEAST_WIDTH or height < LEAST_HEIGHT, "-small")
        self.brush.framed = height >= TALL

    def on_key(self, event: events.Key) -> None:
        """Hand every key on."""
        event.stop()
        event.prevent_default()
        self.hands.press(event.key, event.character)

    def on_paste(self, event: events.Paste) -> None:
        """Hand pasted text on."""
        event.stop()
        self.hands.paste(event.text)

    def on_scrolled_moved(self, event: Scrolled.Moved) -> None:
        """Tell positions anew."""
        event.stop()
        self.hands.act("moved")

    def on_scrolled_opened(self, event: Scrolled.Opened) -> None:
        """Open what was clicked twice."""
        event.stop()
        self.hands.act("open")
