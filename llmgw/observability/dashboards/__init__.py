"""The table of dashboards, one module each."""
