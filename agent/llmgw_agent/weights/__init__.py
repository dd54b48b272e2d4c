"""Weights on this node: fetched once a source, checked, held, removed only where provably ours."""
