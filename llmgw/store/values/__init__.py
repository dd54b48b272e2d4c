"""The tables of a store in memory: plain values under the same rules as a database's.

A call changes nothing before all of it is known to be right.
"""
