"""The frame's own widgets: title bar, side bar, panel edges, key bar, and what lies over all."""

from collections.abc import Callable, Sequence

from textual import events

from llmgw_tui.dialogs.dialog import Dialog
from llmgw_tui.draw import frame
from llmgw_tui.draw.edit import Edit
from llmgw_tui.draw.frame import Entry, Shortcut
from llmgw_tui.draw.text import Line, Piece, Pieces, fit, said, spread
from llmgw_tui.widgets.drawn import Brush, Drawn


class TitleBar(Drawn):
    """Where one is, how the fleet is, how fresh this is."""

    ground = "bar"
    crumbs: Sequence[str] = ()
    health: Pieces = ()
    link: Pieces = ()
    clock = ""

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the title."""
        del height
        return [frame.title_line(self.crumbs, self.health, self.link, self.clock, width)]


class SideBar(Drawn):
    """The screens by number; a click opens one."""

    ground = "side"
    entries: Sequence[Entry] = ()
    legend: Sequence[Pieces] = ()

    def __init__(self, brush: Brush, opened: Callable[[str], None]) -> None:
        super().__init__(brush, id="side")
        self._opened = opened

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the entries."""
        return frame.side_lines(self.entries, self.legend, width, height)

    def on_click(self, event: events.Click) -> None:
        """Open the clicked screen."""
        event.stop()
        index = int(event.y) - 1
        if 0 <= index < len(self.entries):
            self._opened(self.entries[index].key)


class Head(Drawn):
    """The panel's upper edge."""

    heading: tuple[str, Pieces, str] = ("", (), "")
    """Title, notes, and which part of how many shows."""

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the edge."""
        del height
        return [frame.head_line(*self.heading, width, self.brush.framed)]


class Foot(Drawn):
    """The panel's lower edge: the equal command, a passing note, or a line that somebody types.

    It is one line whatever it shows, so that nothing else moves.
    """

    command = ""
    note: Pieces = ()
    prefix = ""
    edit: Edit | None = None
    problem = ""

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the edge."""
        del height
        if self.edit is None:
            return [frame.foot_line(self.command, self.note, width, self.brush.framed)]
        left = said(" ", (self.prefix, "key"), *self.edit.pieces())
        hint = said((self.problem, "warn")) if self.problem else _EDIT_HINT
        return [Line((*spread(left, hint, width - 1), Piece(" ")), "input")]

    def ask(self, prefix: str, edit: Edit) -> None:
        """Begin to take text."""
        self.prefix, self.edit, self.problem = prefix, edit, ""
        self.repaint()

    def answered(self) -> None:
        """Show the command again."""
        self.edit, self.problem = None, ""
        self.repaint()


_EDIT_HINT = said(("Enter", "key"), (" keep  ", "dim"), ("Esc", "key"), (" undo", "dim"))


class KeyBar(Drawn):
    """The keys that matter here; a click is as good."""

    ground = "bar"
    shortcuts: Sequence[Shortcut] = ()

    def __init__(self, brush: Brush, pressed: Callable[[str], None]) -> None:
        super().__init__(brush, id="keybar")
        self._pressed = pressed
        self._areas: tuple[tuple[int, int, str], ...] = ()

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the keys that fit."""
        del height
        line, self._areas = frame.key_bar(self.shortcuts, width)
        return [line]

    def on_click(self, event: events.Click) -> None:
        """Do what the clicked key does."""
        event.stop()
        for start, end, action in self._areas:
            if start <= event.x < end:
                self._pressed(action)
                return


class Over(Drawn):
    """Whatever dialog is open. It is laid over the screen without moving anything under it."""

    ground = "dialog"

    def __init__(self, brush: Brush, done: Callable[[], None]) -> None:
        super().__init__(brush, id="over")
        self.dialog: Dialog | None = None
        self._done = done

    def open(self, dialog: Dialog) -> None:
        """Show a dialog."""
        self.dialog = dialog
        self.place()

    def place(self) -> None:
        """Put the dialog into the middle of the screen; without one, take no room.

        It stays displayed: to show or hide a widget renumbers its siblings, and Textual then
        sends the whole screen again.
        """
        if self.dialog is None:
            self.styles.width = self.styles.height = 0
            return
        screen = self.screen.size
        width, height = self.dialog.size(screen.width, screen.height)
        x, y = (screen.width - width) // 2, max(1, (screen.height - height) // 3)
        self.styles.width, self.styles.height = width, height
        self.styles.offset = (x, y)
        self._shown_width = -1

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return the dialog."""
        return self.dialog.draw(width, height) if self.dialog is not None else ()

    def press(self, key: str, character: str | None) -> None:
        """Give the dialog a key."""
        if self.dialog is not None:
            self.dialog.press(key, character)
            self.after()

    def after(self) -> None:
        """Repaint the dialog, or close it when it has its answer."""
        dialog = self.dialog
        if dialog is None:
            return
        if dialog.closed:
            self.dialog = None
            self.place()
            self._done()
        else:
            self.repaint()

    def on_click(self, event: events.Click) -> None:
        """Give the dialog a click."""
        event.stop()
        if self.dialog is not None:
            self.dialog.click(int(event.y))
            self.after()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Give the dialog the wheel."""
        event.stop()
        self._scroll(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Give the dialog the wheel."""
        event.stop()
        self._scroll(-1)

    def _scroll(self, step: int) -> None:
        if self.dialog is not None:
            self.dialog.scroll(step)
            self.after()


class TooSmall(Drawn):
    """What a terminal shows in which nothing else fits."""

    def draw(self, width: int, height: int) -> Sequence[Line]:
        """Return what is needed and what there is."""
        words = (f"needs {LEAST_WIDTH}x{LEAST_HEIGHT}", f"here {width}x{height}", "q quits")
        return [Line(fit(said(word), width)) for word in words[:height]]


LEAST_WIDTH, LEAST_HEIGHT = 40, 10
