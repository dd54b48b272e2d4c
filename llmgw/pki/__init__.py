"""The cluster's certificate authority: who may speak for whom, one-time tokens, engines' keys."""
