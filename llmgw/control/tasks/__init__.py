"""Background passes, one a file: gather, decide, apply; each returns one sentence."""
