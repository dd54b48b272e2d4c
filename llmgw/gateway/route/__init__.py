"""Which engine a request goes to: pure decisions, no clock, no socket, no random source."""
