"""Shards on this node: started, watched, adopted after a restart, ended, and told of."""
