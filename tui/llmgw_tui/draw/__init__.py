"""Pure drawing: records in, lines of pieces out. No terminal, no time."""
