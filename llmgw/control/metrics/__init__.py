"""What Prometheus scrapes: computed from the fleet when it is asked for, and kept nowhere.

`families` lists every family; the collector serves that list and the reference is made from it.
"""
