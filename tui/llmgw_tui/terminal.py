"""What the terminal can do, told from the environment: pure, and imports nothing heavy."""

from collections.abc import Mapping
from typing import NamedTuple

THEMES = ("dark", "light", "contrast", "ansi", "mono")
_HINT = "`llmgw ctl nodes --watch` shows the fleet without a full screen"


class Abilities(NamedTuple):
    """What to draw with."""

    palette: str
    ascii_only: bool


def refusal(environ: Mapping[str, str], ttys: Mapping[str, bool]) -> tuple[str, str] | None:
    """Return why the console can't run here and what to do instead; None when it can.

    Args:
        environ: the environment.
        ttys: of each standard stream, by name, whether it is a terminal.
    """
    for name, is_terminal in ttys.items():
        if not is_terminal:
            return f"llmgw console needs a terminal, and {name} is none", _HINT
    term = environ.get("TERM", "")
    if term in {"", "dumb", "unknown"}:
        return f"llmgw console can't draw on a terminal of kind {term or 'unset'!r} (TERM)", _HINT
    return None


def abilities(
    environ: Mapping[str, str], *, theme: str | None, ascii_only: bool, slow: bool
) -> Abilities:
    """Return the palette and the glyphs to draw with.

    `NO_COLOR` beats everything. A terminal of 16 colours and a slow line get the terminal's own
    colours, which need the fewest bytes, unless a theme was chosen.
    """
    if environ.get("NO_COLOR"):
        palette = "mono"
    elif theme is not None:
        palette = theme
    else:
        palette = "ansi" if slow or not _has_256(environ) else "dark"
    return Abilities(palette, ascii_only or not _draws_unicode(environ))


def _has_256(environ: Mapping[str, str]) -> bool:
    if environ.get("COLORTERM", "").lower() in {"truecolor", "24bit"}:
        return True
    term = environ.get("TERM", "")
    return "256" in term or "direct" in term or "kitty" in term


def _draws_unicode(environ: Mapping[str, str]) -> bool:
    """Say whether box drawing arrives; nothing said means UTF-8, as on every system of today."""
    if environ.get("TERM") == "linux":
        return False
    said = environ.get("LC_ALL") or environ.get("LANG") or "UTF-8"
    return "UTF" in said.upper()
