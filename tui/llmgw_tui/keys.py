"""Every key: what it is called, what it does, where it works. Help and key bar come from here."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llmgw_tui.draw.frame import Shortcut


class Key(NamedTuple):
    """One function and the keys that call it."""

    names: tuple[str, ...]
    """As the terminal layer calls them."""
    shown: str
    words: str
    action: str
    bar: int = 0
    """Its place in the key bar, lower first; 0: only in the help."""
    kept: bool = False
    """It shows in the key bar however little room there is."""


MOVE = (
    Key(("up", "k"), "↑ k", "up", "up"),
    Key(("down", "j"), "↓ j", "down", "down"),
    Key(("pageup", "ctrl+b"), "PgUp", "a screen up", "page_up"),
    Key(("pagedown", "ctrl+f", "space"), "PgDn", "a screen down", "page_down"),
    Key(("home", "g"), "g Home", "to the start", "start"),
    Key(("end", "G", "upper_g"), "G End", "to the end", "end"),
    Key(("left",), "←", "to the left", "left"),
    Key(("right",), "→", "to the right", "right"),
)

EVERYWHERE = (
    Key(("1",), "1", "overview", "go overview"),
    Key(("2",), "2", "nodes", "go nodes"),
    Key(("3",), "3", "replicas", "go replicas"),
    Key(("4",), "4", "models", "go models"),
    Key(("5",), "5", "logs", "go logs"),
    Key(("6",), "6", "traffic", "go traffic"),
    Key(("7",), "7", "keys", "go keys"),
    Key(("enter",), "Enter", "open", "open", 10),
    Key(("escape", "backspace"), "Esc", "back", "back", 20),
    Key(("colon", "ctrl+p"), ":", "command", "palette", 60),
    Key(("y",), "y", "copy", "copy", 70),
    Key(("Y", "upper_y"), "Y", "copy as JSON", "copy_json"),
    Key(("ctrl+y",), "Ctrl+y", "copy the command line", "copy_command"),
    Key(("r",), "r", "list anew", "relist"),
    Key(("ctrl+l",), "Ctrl+l", "paint anew", "repaint"),
    Key(("question_mark", "f1"), "?", "help", "help", 80, kept=True),
    Key(("q", "ctrl+q"), "q", "quit", "quit", 90, kept=True),
)

LIST = (
    Key(("slash",), "/", "filter", "filter", 30),
    Key(("s",), "s", "sort", "sort", 40),
    Key(("S", "upper_s"), "S", "turn the order", "turn"),
    Key(("l",), "l", "logs", "logs", 50),
)

TRAFFIC = (
    *LIST,
    Key(("x",), "x", "cancel", "cancel", 25),
    Key(("X", "upper_x"), "X", "cancel all that show", "cancel_all"),
    Key(("c",), "c", "chart", "series_next", 55),
    Key(("C", "upper_c"), "C", "chart before", "series_before"),
    Key(("tab",), "Tab", "page or list", "pane", 27),
)

KEYS = (
    *(key for key in LIST if key.action != "logs"),
    Key(("a",), "a", "add", "add", 22),
    Key(("e",), "e", "edit", "edit", 24),
    Key(("x",), "x", "revoke", "revoke", 26),
    Key(("u",), "u", "use over time", "use", 28),
)

PAGE = (Key(("l",), "l", "logs", "logs", 50),)

NODE = (
    *PAGE,
    Key(("c",), "c", "chart", "series_next", 30),
    Key(("C", "upper_c"), "C", "chart before", "series_before"),
    Key(("right_square_bracket",), "]", "device", "device_next", 32),
    Key(("left_square_bracket",), "[", "device before", "device_before"),
    Key(("w",), "w", "time", "time", 34),
    Key(("t",), "t", "log", "tail", 52),
    Key(("tab",), "Tab", "page or log", "pane"),
)

LOG = (
    Key(("slash",), "/", "search", "filter", 30),
    Key(("n",), "n", "next match", "next"),
    Key(("N", "upper_n"), "N", "match before", "before"),
    Key(("f",), "f", "follow", "follow", 35),
    Key(("o",), "o", "source", "source", 40),
    Key(("p",), "p", "node", "node", 45),
    Key(("left_square_bracket",), "[", "source before", "source_before"),
    Key(("right_square_bracket",), "]", "next source", "source_next"),
)


def find(keys: Iterable[Key], name: str) -> str | None:
    """Return the action of a key; None when it has none."""
    return next((key.action for key in keys if name in key.names), None)


def shortcuts(keys: Sequence[Key]) -> tuple[Shortcut, ...]:
    """Return the key bar's entries, in their order."""
    shown = sorted((key for key in keys if key.bar), key=lambda key: key.bar)
    return tuple(Shortcut(key.shown, key.words, key.action, key.kept) for key in shown)


def helped(keys: Iterable[Key]) -> list[tuple[str, str]]:
    """Return (key, words) of each, for the help."""
    return [(key.shown, key.words) for key in keys]
