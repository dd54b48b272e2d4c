"""The palettes as Textual themes: what Textual paints itself takes its colours from there."""

from textual.theme import Theme

from llmgw_tui.themes.palette import PALETTES, Palette


def theme_name(palette: Palette) -> str:
    """Return a palette's name among Textual's themes."""
    return f"llmgw-{palette.name}"


def theme(palette: Palette) -> Theme:
    """Return the theme of a palette. Nearly everything is painted by us: it needs few colours."""
    ground = palette.grounds["panel"]
    if palette.ansi:
        return Theme(
            name=theme_name(palette),
            primary="ansi_default",
            foreground="ansi_default",
            background="ansi_default",
            surface="ansi_default",
            panel="ansi_default",
            boost="ansi_default",
            dark=palette.dark,
            ansi=True,
            variables={"ansi-background": "ansi_default", "ansi-foreground": "ansi_default"},
        )
    return Theme(
        name=theme_name(palette),
        primary=palette.inks["edge"].color or "#ffffff",
        foreground=ground.color,
        background=ground.background,
        surface=ground.background,
        panel=ground.background,
        dark=palette.dark,
    )


def themes() -> tuple[Theme, ...]:
    """Return all of them."""
    return tuple(theme(palette) for palette in PALETTES.values())
