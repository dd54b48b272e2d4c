"""Whole clusters of the product's own control planes and agents on virtual time: see `run`."""
