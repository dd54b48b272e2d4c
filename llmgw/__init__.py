"""Operations suite for LLM inference on a fleet: control plane, gateway, command line."""

__version__ = "0.1.0"
