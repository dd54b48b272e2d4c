"""The command line: one Typer tree whose branches are loaded when they are called."""
