"""The admin API's clients: `oneshot` for one command, `asyncclient` for what stays connected."""
