"""Widgets that paint lines and send only the cells that changed."""
