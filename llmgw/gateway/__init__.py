"""The gateway: what users' requests go through."""
