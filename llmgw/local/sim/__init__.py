"""A world in memory for whole clusters: virtual time, a network, machines, faults; all by a seed.

What is simulated is the world alone: the event loop and what stands behind the four Protocols
(`Processes`, `Files`, `Http`, `Clock` with its `Rng`). Control planes and agents that run in it are
the product's own.
"""
