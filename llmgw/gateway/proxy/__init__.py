"""The hot path: what every byte of a request and of its reply goes through."""
