"""Everything on one machine: the demo."""
