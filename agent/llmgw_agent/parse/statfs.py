"""`stat -f`: space and type of filesystems, as a person prints them to show where weights lie.

An agent itself reads types from the mount table and space from statvfs; both must agree with this.
"""

import re
from collections.abc import Iterator, Mapping

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record
from llmgw_agent.parse import plausible
from llmgw_agent.parse.lines import lines_of
from llmgw_agent.parse.tool import Tool

SHARED_MAGICS: Mapping[int, str] = {
    0x6969: "nfs",
    0xFE534D42: "smb2",
    0xFF534D42: "cifs",
    0x517B: "smb",
    0x0BD00BD0: "lustre",
    0x00C36400: "ceph",
    0x19830326: "beegfs",
    0x47504653: "gpfs",
    0x5346414F: "afs",
    0x7461636F: "ocfs2",
    0x01161970: "gfs2",
    0xAAD7AAEA: "panfs",
}
"""What statfs calls filesystems that several machines see (linux/magic.h and their own headers).

FUSE (0x65735546) is in neither list: what is behind it only the mount table tells.
"""

_SHARED_NAMES = frozenset({*SHARED_MAGICS.values(), "gfs/gfs2", "acfs", "ibrix", "snfs"})

_FILE = re.compile(r'\s*File: "(?P<path>.*)"\Z')
_TYPE = re.compile(r"\bType: (?P<type>.+?)\s*\Z")
_UNIT = re.compile(r"Fundamental block size: (?P<unit>[0-9]{1,10})")
_BLOCKS = re.compile(
    r"Blocks: Total: (?P<total>[0-9]{1,20})\s+Free: (?P<free>[0-9]{1,20})\s+"
    r"Available: (?P<available>[0-9]{1,20})"
)
_TYPED = re.compile(r"(?P<path>.+?) (?P<type>\S+) 0x(?P<magic>[0-9a-f]{1,16})\Z")
_UNKNOWN = re.compile(r"UNKNOWN \(0x(?P<magic>[0-9a-f]{1,16})\)\Z")


class Filesystem(Record, frozen=True, kw_only=True):
    """A filesystem as `stat -f` tells it. Bytes; None: not told.

    `available_bytes` is what users may still fill, `free_bytes` holds root's reserve too.
    """

    path: str
    type: str | None = None
    magic: int | None = None
    shared: bool | None = None
    """Whether several machines see it; None: its type does not tell."""
    total_bytes: int | None = None
    free_bytes: int | None = None
    available_bytes: int | None = None


def read_stat_f(text: str) -> tuple[Filesystem, ...]:
    """Return the filesystems of `stat -f PATH …`, or of `stat -f -c '%n %T 0x%t' PATH …`.

    Raises:
        Unreadable: there is text, and no line of it begins a filesystem.
    """
    lines = lines_of(text)
    found = tuple(_long(lines) if any(map(_FILE.match, lines)) else _short(lines))
    if not found and text.strip():
        raise Unreadable(f"stat -f: {text.strip().splitlines()[0][:80]!r} is no filesystem")
    return found


def is_shared(kind: str | None, magic: int | None) -> bool | None:
    """Say whether several machines see a filesystem of that type; None: it can be either."""
    if magic in SHARED_MAGICS or kind in _SHARED_NAMES:
        return True
    return None if kind is None or kind.startswith("fuse") else False


def _short(lines: list[str]) -> Iterator[Filesystem]:
    for line in lines:
        if match := _TYPED.match(line.strip()):
            yield _filesystem(match["path"], match["type"], int(match["magic"], 16), {})


def _long(lines: list[str]) -> Iterator[Filesystem]:
    path: str | None = None
    told: dict[str, str] = {}
    for line in lines:
        if match := _FILE.match(line):
            if path is not None:
                yield _told(path, told)
            path, told = match["path"], {}
            continue
        for pattern in (_TYPE, _UNIT, _BLOCKS):
            if match := pattern.search(line):
                told.update(match.groupdict())
    if path is not None:
        yield _told(path, told)


def _told(path: str, told: Mapping[str, str]) -> Filesystem:
    kind = told.get("type")
    unknown = _UNKNOWN.match(kind) if kind is not None else None
    if unknown is None:
        return _filesystem(path, kind, None, told)
    magic = int(unknown["magic"], 16)
    return _filesystem(path, SHARED_MAGICS.get(magic), magic, told)


def _filesystem(
    path: str, kind: str | None, magic: int | None, told: Mapping[str, str]
) -> Filesystem:
    # Blocks are counted in the fundamental size; the other one is what is best read at once.
    unit = int(told["unit"]) if "unit" in told else None
    return Filesystem(
        path=path,
        type=kind,
        magic=magic,
        shared=is_shared(kind, magic),
        total_bytes=_bytes(told, "total", unit),
        free_bytes=_bytes(told, "free", unit),
        available_bytes=_bytes(told, "available", unit),
    )


def _bytes(told: Mapping[str, str], name: str, unit: int | None) -> int | None:
    if unit is None or name not in told:
        return None
    return plausible.size(int(told[name]) * unit)


TOOLS = (Tool(name="statfs", how="stat -f /", read=read_stat_f),)
