"""Requests against the gateway that no client sends: cut, swapped, garbled, spliced.

    python -m tests.fuzz.gateway --examples 10000
    python -m tests.fuzz.gateway --seed 17

Client, gateway and engine are in one process, over transports in memory; an example is named by its
seed and is the same bytes, in the same parts, each time. h11 reads the same bytes as the reference:
what the gateway takes for a request h11 has to take for the same one, at the same place. Beside
that, nothing may raise, every reply has to be HTTP to h11, none may be a 5xx of our own making,
and at the end nothing may be left open.
"""
