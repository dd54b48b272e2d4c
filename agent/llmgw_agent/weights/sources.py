"""What a fetcher is given, and what it leaves: one interface for every kind of source."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from llmgw.base.errors import Refused
from llmgw.base.units import show_bytes
from llmgw.base.world import Files
from llmgw.model.shard import Progress

Tell = Callable[[Progress], None]


class Fetcher(Protocol):
    """Brings the files of one source."""

    async def check(self, cache: Path) -> None:
        """Raise, as `fetch` would, what speaks against fetching the source; fetch nothing.

        Args:
            cache: where it would lie; it may not be there yet.
        """
        ...

    async def fetch(self, work: Path, tell: Tell) -> Path:
        """Bring the source's file into `work` and return it, whole and checked.

        What a former try left in `work` may be used. Nothing else of `work` is kept.

        Raises:
            Refused: a sum differs (both are named, the file is removed), the disk is too small.
            Unreachable: nobody answers, or the transfer broke again and again.
            TimedOut: no byte came for too long.
            NotFound: the source is not there.
        """
        ...


def check_space(files: Files, directory: Path, needed: int, what: str) -> None:
    """Check that a directory's filesystem has room, before anything is fetched.

    Raises:
        Refused: it has not; both figures are named. A filesystem that does not say passes.
    """
    space = files.space(directory)
    if space is not None and space.free < needed:
        raise Refused(
            f"{what}: {show_bytes(space.free)} free below {directory}, needs {show_bytes(needed)}",
            hint="free some space, or give the agent another weights_dir",
        )
