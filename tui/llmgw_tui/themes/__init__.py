"""What roles look like: five palettes, state colours safe for the colour-blind (Okabe-Ito)."""

from llmgw_tui.themes.palette import PALETTES, Ink, Palette

__all__ = ["PALETTES", "Ink", "Palette"]
