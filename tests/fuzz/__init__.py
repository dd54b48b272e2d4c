"""Readers against texts that no tool prints: cut, swapped, garbled, spliced.

    python -m tests.fuzz --examples 20000 [TOOL ...]
    python -m tests.fuzz --seed 17 --file 8x-h100-535-hw-slowdown.txt nvidia-smi-q

An example is named by tool, recorded file and seed, and is the same text each time.
"""
