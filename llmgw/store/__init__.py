"""What has to outlive a control plane: settings, catalog, keys, enrolment, secrets, usage, term.

Nodes are stored, replicas are not: what runs is told by the fleet (invariant 2).
"""
