"""The agent of a node: what the machine has, its engines, and the link to the control plane."""
