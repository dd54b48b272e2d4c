"""One file a source of facts: it runs or reads, a parser understands; no heartbeat waits."""
