"""Deciding, as functions of values: placement, reconciling, checks and explanations of plans."""
