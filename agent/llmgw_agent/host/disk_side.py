"""The disk helper: answers `llmgw_agent.host.disk`'s requests, each of which may block for ever.

Run as `python -m llmgw_agent.host.disk_side`.
"""

import os
from pathlib import Path

import msgspec

from llmgw.base.errors import NotFound, Refused, Unreadable
from llmgw.model.record import Record
from llmgw_agent.host.disk import (
    DiskRequest,
    LookAt,
    Looked,
    RemoveSets,
    Sets,
    SetsIn,
    SetsRemoved,
    Space,
    SpaceOf,
)
from llmgw_agent.host.helper_side import serve
from llmgw_agent.parse.weights_head import HEAD_BYTES, kind_of
from llmgw_agent.weights.cache import held_sets, remove_set
from llmgw_agent.weights.scan import sets_below


def answer(line: bytes) -> Record:
    """Return the answer to one request."""
    request = msgspec.json.decode(line, type=DiskRequest)
    match request:
        case SpaceOf(path=path):
            return _space(Path(path))
        case SetsIn(path=path, ours=ours):
            return Sets(sets=held_sets(Path(path)) if ours else sets_below(Path(path)))
        case LookAt(path=path):
            return Looked(kind=_look(Path(path)))
        case RemoveSets():
            return _remove(request)


def _space(path: Path) -> Space:
    """A missing directory is no error: it is what an unmounted filer looks like."""
    try:
        real = path.resolve(strict=True)
        seen = os.statvfs(real)
    except OSError:
        return Space()
    return Space(
        real=str(real),
        total_bytes=seen.f_blocks * seen.f_frsize,
        free_bytes=seen.f_bavail * seen.f_frsize,
    )


def _look(path: Path) -> str:
    if path.is_dir():
        for held in sets_below(path):
            if held.path == str(path):
                return "safetensors"
        raise Unreadable(f"{path}: a directory without a whole set of safetensors")
    try:
        with path.open("rb") as data:
            return kind_of(data.read(HEAD_BYTES), str(path))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"{path}: no such file on this node") from error
    except PermissionError as error:
        raise Refused(f"{path}: this user may not read it") from error
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from error


def _remove(request: RemoveSets) -> SetsRemoved:
    removed, refused = [], []
    for name in request.names:
        try:
            remove_set(Path(request.cache), name, frozenset(request.in_use))
            removed.append(name)
        except Refused as error:
            refused.append(error.message)
        except OSError as error:
            refused.append(f"{name}: {error.strerror}")
    return SetsRemoved(removed=tuple(removed), refused=tuple(refused))


if __name__ == "__main__":
    serve(answer)
