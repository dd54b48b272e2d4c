"""What the console does: where one is, what keys mean, when what is painted."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, tzinfo
from pathlib import Path
from shlex import quote

import msgspec

from llmgw.base.clock import Clock
from llmgw.client.interface import LIVE
from llmgw_tui import keys
from llmgw_tui.dialogs.dialog import Dialog
from llmgw_tui.dialogs.pick import Pick
from llmgw_tui.dialogs.reading import Reading
from llmgw_tui.draw import help as help_page
from llmgw_tui.draw import status
from llmgw_tui.draw.edit import Edit
from llmgw_tui.draw.frame import Shortcut
from llmgw_tui.draw.places import KEYS, LOGS, MODEL, NODE, OVERVIEW, REPLICA, TRAFFIC, Place
from llmgw_tui.draw.seen import When
from llmgw_tui.draw.text import Pieces, clean, said
from llmgw_tui.history import History
from llmgw_tui.palette import SCREENS, choices
from llmgw_tui.screens.frame import Frame
from llmgw_tui.screens.keylist import KeysView
from llmgw_tui.screens.lists import LISTS
from llmgw_tui.screens.logs import LogsView
from llmgw_tui.screens.pages import ModelView, NodeView, OverviewView, ReplicaView
from llmgw_tui.screens.traffic import TrafficView
from llmgw_tui.screens.view import View
from llmgw_tui.shell import Asking, Shell
from llmgw_tui.store.fleet import Fleet
from llmgw_tui.store.watch import ConsoleClient
from llmgw_tui.themes.paint import Paint
from llmgw_tui.themes.palette import PALETTES
from llmgw_tui.widgets.drawn import Brush, Drawn

FLUSH = 0.25
"""Seconds between two looks at what changed."""
_UNNAMED = "llmgw"
"""What a cluster is called as long as nobody named it."""
NOTE_SECONDS = 5.0
"""How long a passing note stays."""
VIEWS: dict[str, type[View]] = {
    OVERVIEW: OverviewView,
    **LISTS,
    LOGS: LogsView,
    NODE: NodeView,
    REPLICA: ReplicaView,
    MODEL: ModelView,
    TRAFFIC: TrafficView,
    KEYS: KeysView,
}


@dataclass(frozen=True, slots=True)
class Look:
    """How the console looks and behaves, as far as a person may say."""

    palette: str = "dark"
    ascii_only: bool = False
    readonly: bool = False
    flush: float = FLUSH
    zone: tzinfo = UTC
    name: str = ""
    """What the cluster is called until it says so itself: the context."""
    context: str = ""
    """The context that was asked for by name; commands that are shown name it too."""


class Console:
    """The desk that screens work at, and the hands that the frame gives keys to.

    Invariant: only the view that shows is updated; another one is rebuilt when it is entered.
    """

    def __init__(self, client: ConsoleClient, clock: Clock, look: Look, shell: Shell) -> None:
        self.client = client
        self.clock = clock
        self.look = look
        self.fleet = Fleet()
        self.brush = Brush(Paint(PALETTES[look.palette], ascii_only=look.ascii_only))
        self.history = History(Place(OVERVIEW))
        self._shell = shell
        self._views = {name: kind(self, name) for name, kind in VIEWS.items()}
        self.frame = Frame(self.brush, self._views, self)
        self._asking: Asking | None = None
        self._note: Pieces = ()
        self._note_ends = 0.0
        self._minute = -1
        self._health: Pieces = ()
        self._counts: dict[str, tuple[int, str]] = {}
        self._quitting = False
        """Ctrl+c was pressed once."""

    @property
    def view(self) -> View:
        """Return the view that shows."""
        return self._views[self.history.here.screen]

    @property
    def readonly(self) -> bool:
        """Say whether nothing may be changed from here."""
        return self.look.readonly

    def when(self) -> When:
        """Return this moment."""
        return When(self.clock.now(), self.look.zone)

    def ready(self) -> None:
        """Show the first screen."""
        self._arrive()

    # Painting

    def flush(self) -> None:
        """Bring what changed to the screen. What lies under a dialog rests until it is closed."""
        if not self.frame.is_mounted:
            return
        if self.frame.over.dialog is not None:
            self._repaint_title()
            return
        changes = self.fleet.changes()
        minute = int(self.clock.now()) // 60
        changes.minute, self._minute = minute != self._minute, minute
        if changes.nodes or changes.replicas or changes.models or changes.everything:
            seen = self.fleet.seen()
            self._health, self._counts = status.health(seen), status.counts(seen)
        self._dim()
        self.view.update(changes)
        if self._note and self.clock.monotonic() >= self._note_ends:
            self._note = ()
        self.repaint_edges()

    def _dim(self) -> None:
        """Dim what is old: nothing came since the connection was lost."""
        connection = self.fleet.connection
        stale = connection.state != LIVE and connection.heard is not None
        stale = stale or self.view.outdated
        for body in self.view.bodies:
            if stale != body.stale:
                body.stale = stale
                body.repaint()

    def _repaint_title(self) -> None:
        """Draw the title bar anew: also under a dialog it says how fresh the rest is."""
        title, when, connection = self.frame.title_bar, self.when(), self.fleet.connection
        title.crumbs = self._crumbs()
        title.health = self._health
        mark = "  RO" if self.look.readonly else ""
        title.link = said(*status.link(connection.state, connection.heard, when.now), (mark, "dim"))
        title.clock = when.clock(when.now, "%H:%M")
        title.repaint()

    def repaint_edges(self) -> None:
        """Draw title, side bar, panel edges and key bar anew, as far as they changed."""
        frame, view, connection = self.frame, self.view, self.fleet.connection
        self._repaint_title()
        frame.side.entries = status.entries(self._counts, self.history.root)
        frame.head.heading = view.heading()
        frame.foot.command = self.command()
        lost = connection.state != LIVE and connection.words
        frame.foot.note = self._note or (said((clean(connection.words), "moving")) if lost else ())
        frame.key_bar.shortcuts = self._shortcuts()
        for edge in frame.edges():
            edge.repaint()

    def command(self) -> str:
        """Return the command line that shows the same as the screen."""
        said = self.look.context
        command = self.view.command()
        return command.replace(" ctl ", f" ctl --context {quote(said)} ", 1) if said else command

    def _shortcuts(self) -> tuple[Shortcut, ...]:
        """Return the keys of the key bar, without those that would do nothing here."""
        found = keys.shortcuts((*self.view.own_keys, *keys.EVERYWHERE))
        idle = set(self.view.idle())
        if not self.history.deep and not self.view.filtered():
            idle.add("back")
        if self.view.target() is None:
            idle.add("open")
        return tuple(shortcut for shortcut in found if shortcut.action not in idle)

    def _crumbs(self) -> tuple[str, ...]:
        named = self.fleet.cluster if self.fleet.cluster != _UNNAMED else ""
        cluster = clean(named or self.look.name)
        title = status.TITLES.get(self.history.root, "")
        return tuple(part for part in ("llmgw", cluster, title, clean(self.view.crumb())) if part)

    def resized(self) -> None:
        """Take in another size."""
        self.repaint_edges()

    # Places

    def go(self, place: Place) -> None:
        """Open a place; a screen of the side bar begins a new trail."""
        self.view.leave()
        if place.screen in status.TITLES and not place.id:
            self.history.jump(place)
        else:
            self.history.go(place)
        self._arrive()

    def back(self) -> None:
        """Take a filter away, or go back to where one came from."""
        if self.view.clear_filter():
            self.repaint_edges()
            return
        self.view.leave()
        if not self.history.back():
            self.history.jump(Place(OVERVIEW))
        self._arrive()

    def _arrive(self) -> None:
        self.frame.show(self.history.here.screen)
        self.view.enter(self.history.here)
        self._dim()
        self.repaint_edges()

    # Speaking and asking

    def say(self, words: str, role: str = "text") -> None:
        """Show a passing note at the panel's lower edge."""
        self._note = said((clean(words), role))
        self._note_ends = self.clock.monotonic() + NOTE_SECONDS
        self.repaint_edges()

    def ask(
        self,
        prefix: str,
        text: str,
        *,
        changed: Callable[[str], str],
        done: Callable[[str], object],
        cancelled: Callable[[], object],
    ) -> None:
        """Let somebody type a line at the panel's lower edge."""
        self._asking = Asking(changed, done, cancelled)
        self.frame.foot.ask(prefix, Edit(text, len(text)))

    def open_dialog(self, dialog: Dialog) -> None:
        """Put a dialog over the screen; what is under it rests meanwhile."""
        self.frame.over.open(dialog)

    # Keys

    def press(self, key: str, character: str | None) -> None:
        """Give a key to whoever waits for one: a dialog, a line being typed, the screen."""
        if key == "ctrl+c":
            self._interrupted()
            return
        self._quitting = False
        if self.frame.over.dialog is not None:
            self.frame.over.press(key, character)
        elif self._asking is not None:
            self._type(self._asking, key, character)
        else:
            action = keys.find((*self.view.own_keys, *keys.MOVE, *keys.EVERYWHERE), key)
            if action is not None:
                self.act(action)

    def paste(self, text: str) -> None:
        """Give pasted text to whoever waits for text."""
        over, foot = self.frame.over, self.frame.foot
        if over.dialog is not None:
            over.dialog.paste(text)
            over.after()
        elif self._asking is not None and foot.edit is not None:
            self._typed(self._asking, foot.edit.insert(text))

    def digit(self, key: str) -> None:
        """Open the screen with that number."""
        self.go(Place(SCREENS[int(key) - 1]))

    def act(self, action: str) -> None:
        """Do what a key, a click or a command stands for."""
        verb, _, rest = action.partition(" ")
        if verb == "go":
            self.go(Place(rest))
        elif not self.view.do(action):
            run = self._actions().get(action)
            if run is not None:
                run()
        else:
            self.repaint_edges()

    def use(self, palette: str) -> None:
        """Paint with another palette."""
        self.brush.paint = Paint(PALETTES[palette], ascii_only=self.look.ascii_only)
        self._shell.use_theme(palette)
        self._repaint_all()

    def _actions(self) -> dict[str, Callable[[], object]]:
        return {
            "open": self._open,
            "back": self.back,
            "palette": lambda: self.open_dialog(Pick("Command", lambda text: choices(self, text))),
            "help": self._help,
            "copy": self._copy,
            "copy_json": self._copy_json,
            "copy_command": lambda: self.copy(self.command()),
            "export": self._export,
            "relist": self._shell.relist,
            "repaint": self._repaint_all,
            "quit": self._shell.leave,
            "moved": self.repaint_edges,
        }

    def _interrupted(self) -> None:
        if self._quitting:
            self._shell.leave()
        self._quitting = True
        self.say("Ctrl+c again, or q, ends the console", "warn")

    def _type(self, asking: Asking, key: str, character: str | None) -> None:
        foot = self.frame.foot
        if key in {"enter", "escape"}:
            text = foot.edit.text if foot.edit else ""
            self._asking = None
            foot.answered()
            if key == "enter":
                asking.done(text)
            else:
                asking.cancelled()
            self.repaint_edges()
        elif foot.edit is not None and (edit := foot.edit.typed(key, character)) is not None:
            self._typed(asking, edit)
        elif key in {"up", "down", "pageup", "pagedown"}:
            self.act({"pageup": "page_up", "pagedown": "page_down"}.get(key, key))

    def _typed(self, asking: Asking, edit: Edit) -> None:
        foot = self.frame.foot
        before, foot.edit = foot.edit, edit
        if before is None or before.text != edit.text:
            foot.problem = asking.changed(edit.text)
        foot.repaint()

    def _open(self) -> None:
        target = self.view.target()
        if target is not None:
            self.go(target)

    def _help(self) -> None:
        groups = (
            (self.view.heading().title, keys.helped(self.view.own_keys)),
            ("Move", keys.helped(keys.MOVE)),
            ("Everywhere", keys.helped(keys.EVERYWHERE)),
        )
        self.open_dialog(Reading("Keys", lambda width: help_page.body(groups, width)))

    def copy(self, text: str, *, says: str = "") -> None:
        """Give a text to the terminal's clipboard, and say so; a secret is not told again."""
        self._shell.copy_to_clipboard(text)
        first = text.partition("\n")[0]
        told = f"copied {first}" if first == text else f"copied {len(text.splitlines())} lines"
        self.say(says or told)

    def _copy(self) -> None:
        chosen = self.view.chosen()
        if chosen is not None:
            self.copy(chosen.name)

    def _copy_json(self) -> None:
        chosen = self.view.chosen()
        if chosen is None or not chosen.records:
            self.say("nothing here has a JSON form", "dim")
            return
        first, *others = chosen.records
        records: object = chosen.records if others else first
        self.copy(msgspec.json.format(msgspec.json.encode(records), indent=2).decode())

    def _export(self) -> None:
        """Write what the screen shows to a file of the directory one started in."""
        path = Path(f"llmgw-{self.history.here.screen}.txt")
        text = "\n".join(strip.text.rstrip() for strip in self.frame.strips()) + "\n"
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            self.say(f"{path}: {error.strerror}", "warn")
            return
        self.say(f"written to {path}")

    def _repaint_all(self) -> None:
        for widget in self.frame.query(Drawn):
            widget.repaint_all()
        self.frame.refresh()
