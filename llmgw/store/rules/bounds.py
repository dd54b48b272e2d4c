"""How much a store keeps of what only grows."""

EVENTS = 10_000
"""Events beyond it are dropped, the oldest first."""

HARDWARE = 500
"""Changes of a node; beyond it the oldest are dropped that are not the last of their subject."""

SUBJECTS = 2000
"""Changes of a node that are kept at all."""

JOBS = 500
"""Jobs that are over; beyond it the oldest are dropped. Those that go on stay."""
