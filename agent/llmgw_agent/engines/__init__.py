"""Engines on this node: how each is installed, started and understood."""
