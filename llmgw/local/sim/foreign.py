"""The one library that looks at the machine's own clock, given the simulated one meanwhile.

grpclib counts its keepalive by `time.monotonic`: by the real one a run would depend on how fast it
is carried out.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Final

from llmgw.local.sim.loop import SimLoop

_MODULES: Final = ("client", "metadata", "protocol", "server")


@contextmanager
def on_virtual_time(loop: SimLoop) -> Iterator[None]:
    """Let grpclib count by a loop's time within the block."""
    modules = [importlib.import_module(f"grpclib.{name}") for name in _MODULES]
    before = [module.time for module in modules]
    virtual = SimpleNamespace(monotonic=loop.time)
    for module in modules:
        setattr(module, "time", virtual)  # noqa: B010 -- a module's attribute, which types forbid
    try:
        yield
    finally:
        for module, real in zip(modules, before, strict=True):
            setattr(module, "time", real)  # noqa: B010
