"""Processes of this machine, for tests without a loop."""

from llmgw.base import procfs
from llmgw.base.world import ProcessSeen


def with_environ(name: str, value: str) -> list[ProcessSeen]:
    """Return every live process that was started with that environment variable."""
    mark = f"{name}={value}".encode()
    found = (procfs.marked(pid, mark) for pid in procfs.pids())
    return [one for one in found if one is not None]
