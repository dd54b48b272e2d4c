"""An engine that computes nothing and answers like one: for demos without weights, and for tests.

Run as `python -m llmgw_agent.engines.simulated_server`. Standard library alone, so that it starts
at once and needs no environment of its own.
"""
