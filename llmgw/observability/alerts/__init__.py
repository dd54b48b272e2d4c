"""The table of alerts, one module a kind of thing."""
