"""The palettes as values. A colour is `#rrggbb`, a terminal's own colour by name, or none."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Ink:
    """How a role is written. `color` None keeps what the ground gives."""

    color: str | None = None
    bold: bool = False
    dim: bool = False
    underline: bool = False
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class Ground:
    """What lies under a line. `flat`: pieces on it keep their words and lose their colours."""

    background: str | None = None
    color: str | None = None
    dim: bool = False
    bold: bool = False
    reverse: bool = False
    flat: bool = False


@dataclass(frozen=True, slots=True)
class Palette:
    """A whole look. `ansi`: the terminal's own colours, nothing else is sent."""

    name: str
    words: str
    dark: bool = True
    ansi: bool = False
    inks: dict[str, Ink] = field(default_factory=dict)
    grounds: dict[str, Ground] = field(default_factory=dict)


def _inks(colors: dict[str, str]) -> dict[str, Ink]:
    """Return the inks of a palette of true colours."""
    bold = {"title", "here", "key", "sorted", "strong", "fill3"}
    return {role: Ink(color, bold=role in bold) for role, color in colors.items()}


def _grounds(
    panel: str, text: str, bar: str, chosen: str, cursor: str, dialog: str
) -> dict[str, Ground]:
    return {
        "panel": Ground(panel, text),
        "side": Ground(panel, text),
        "bar": Ground(bar, text),
        "chosen": Ground(chosen, text),
        "cursor": Ground(cursor, text),
        "dialog": Ground(dialog, text),
        "input": Ground(dialog, text),
        "stale": Ground(panel, text, dim=True),
        "stale-cursor": Ground(cursor, text, dim=True),
    }


# fmt: off
DARK = Palette(
    name="dark",
    words="dark",
    inks=_inks(
        {
            "dim": "#8f98a8", "faint": "#5c6675", "frame": "#4a5568", "edge": "#7aa2c8",
            "title": "#e6e9ef", "here": "#ffffff", "head": "#9fb3c8", "sorted": "#e6e9ef",
            "key": "#c3a6ff", "strong": "#ffffff", "command": "#8f98a8", "caret": "#ffffff",
            "match": "#ffd866", "fill1": "#6f8fb3", "fill2": "#9dbbdc", "fill3": "#dbe9f8",
            "track": "#39424f", "absent": "#6b7585",
            "idle": "#a9b1bd", "serving": "#56b4e9", "moving": "#1fbf92", "warn": "#f0a830",
            "down": "#ff7a45", "unknown": "#8f98a8",
        }
    ),
    grounds=_grounds("#12151a", "#d5dae2", "#1d232c", "#243041", "#2c3d55", "#1b2129"),
)

LIGHT = Palette(
    name="light",
    words="light",
    dark=False,
    inks=_inks(
        {
            "dim": "#5b6470", "faint": "#8a939f", "frame": "#b3bcc7", "edge": "#4a6f94",
            "title": "#11161d", "here": "#000000", "head": "#43566b", "sorted": "#11161d",
            "key": "#6a32c2", "strong": "#000000", "command": "#5b6470", "caret": "#000000",
            "match": "#7a5300", "fill1": "#7d9cbf", "fill2": "#4c719b", "fill3": "#1f456f",
            "track": "#d3dae2", "absent": "#7b8591",
            "idle": "#5b6470", "serving": "#0063a3", "moving": "#00684c", "warn": "#8f5200",
            "down": "#b02a00", "unknown": "#6a737e",
        }
    ),
    grounds=_grounds("#fafbfc", "#1d232b", "#e6ebf1", "#d5e2f0", "#c9dcf2", "#eef2f7"),
)

CONTRAST = Palette(
    name="contrast",
    words="high contrast",
    inks=_inks(
        {
            "dim": "#d0d0d0", "faint": "#a8a8a8", "frame": "#ffffff", "edge": "#ffffff",
            "title": "#ffffff", "here": "#ffffff", "head": "#ffffff", "sorted": "#ffff00",
            "key": "#ffff00", "strong": "#ffffff", "command": "#e0e0e0", "caret": "#ffffff",
            "match": "#ffff00", "fill1": "#b8d4ff", "fill2": "#dceaff", "fill3": "#ffffff",
            "track": "#707070", "absent": "#b0b0b0",
            "idle": "#e0e0e0", "serving": "#6cc9ff", "moving": "#3ff0b8", "warn": "#ffb938",
            "down": "#ff8a5c", "unknown": "#c8c8c8",
        }
    ),
    grounds=_grounds("#000000", "#ffffff", "#000000", "#003a75", "#004a94", "#101010"),
)

# fmt: on
_ANSI_GROUNDS = {
    "panel": Ground(),
    "side": Ground(),
    "bar": Ground(),
    "chosen": Ground(reverse=True, flat=True),
    "cursor": Ground(reverse=True, flat=True),
    "dialog": Ground(),
    "input": Ground(),
    "stale": Ground(dim=True),
    "stale-cursor": Ground(reverse=True, dim=True, flat=True),
}

# fmt: off
TERMINAL = Palette(
    name="ansi",
    words="the terminal's own colours",
    ansi=True,
    inks={
        "dim": Ink(), "faint": Ink("bright_black"), "frame": Ink("bright_black"),
        "edge": Ink("cyan"), "title": Ink(bold=True), "here": Ink(bold=True),
        "head": Ink(underline=True), "sorted": Ink(bold=True, underline=True),
        "key": Ink("magenta", bold=True), "strong": Ink(bold=True), "command": Ink("bright_black"),
        "caret": Ink(reverse=True), "match": Ink("yellow", bold=True),
        "fill1": Ink("blue"), "fill2": Ink("cyan"), "fill3": Ink(bold=True),
        "track": Ink("bright_black"), "absent": Ink("bright_black"),
        "idle": Ink(), "serving": Ink("cyan"), "moving": Ink("green"),
        "warn": Ink("yellow", bold=True), "down": Ink("bright_red", bold=True),
        "unknown": Ink("bright_black"),
    },
    grounds=_ANSI_GROUNDS,
)

MONO = Palette(
    name="mono",
    words="no colours",
    ansi=True,
    inks={
        "faint": Ink(dim=True), "frame": Ink(dim=True), "title": Ink(bold=True),
        "here": Ink(bold=True), "head": Ink(underline=True),
        "sorted": Ink(bold=True, underline=True), "key": Ink(bold=True), "strong": Ink(bold=True),
        "command": Ink(dim=True), "caret": Ink(reverse=True),
        "match": Ink(bold=True, underline=True),
        "track": Ink(dim=True), "absent": Ink(dim=True), "serving": Ink(bold=True),
        "warn": Ink(underline=True), "down": Ink(bold=True, reverse=True), "unknown": Ink(dim=True),
    },
    grounds=_ANSI_GROUNDS,
)

# fmt: on
PALETTES = {palette.name: palette for palette in (DARK, LIGHT, CONTRAST, TERMINAL, MONO)}
