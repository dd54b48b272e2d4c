"""The tree helper: reads files of sysfs behind which a driver may hang.

Run as `python -m llmgw_agent.host.tree_side`.
"""

import os
from pathlib import Path

import msgspec

from llmgw_agent.host.helper_side import serve
from llmgw_agent.host.tree import Tree, TreeOf, read_live


class PlainFiles:
    """Files of this machine, without the event loop that comes with `llmgw.base.system`."""

    def names(self, path: Path) -> tuple[str, ...]:
        """Return the sorted names in a directory; OSError when it can't be listed."""
        return tuple(sorted(os.listdir(path)))  # noqa: PTH208

    def read_part(self, path: Path, offset: int, most: int) -> bytes:
        """Return at most `most` bytes from `offset` on; OSError when it can't be read."""
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.pread(handle, most, offset)
        finally:
            os.close(handle)


def answer(line: bytes) -> Tree:
    """Return the answer to one request."""
    request = msgspec.json.decode(line, type=TreeOf)
    found = read_live(PlainFiles(), Path(request.root), request.wanted, request.most)
    return Tree(files=dict(found))


if __name__ == "__main__":
    serve(answer)
