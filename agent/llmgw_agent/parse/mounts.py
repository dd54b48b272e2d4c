"""/proc/self/mountinfo: which filesystem a path lies on, and whether others share it."""

import re

from llmgw.base.errors import Unreadable
from llmgw.model.record import Record
from llmgw_agent.parse.lines import lines_of

SHARED_TYPES = frozenset(
    {
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.ceph",
        "fuse.ceph-fuse",
        "fuse.dfuse",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.juicefs",
        "fuse.mfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "panfs",
        "pvfs2",
        "smb2",
        "smb3",
        "smbfs",
        "wekafs",
    }
)
"""Types that several machines see at once. A type that is not in here is local."""

_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(Record, frozen=True, kw_only=True):
    """One mounted filesystem."""

    device: str
    """`major:minor`, the same for every mount of one filesystem."""
    path: str
    type: str
    source: str


def read_mountinfo(text: str) -> tuple[Mount, ...]:
    """Return the mounts in the order in which they were made.

    Raises:
        Unreadable: a line is not of the kernel's form.
    """
    return tuple(_mount(line) for line in lines_of(text) if line.strip())


def _mount(line: str) -> Mount:
    left, dash, right = line.partition(" - ")
    before, after = left.split(" "), right.split(" ")
    if not dash or len(before) < 6 or len(after) < 2:
        raise Unreadable(f"/proc/self/mountinfo: {line[:120]!r}")
    return Mount(
        device=before[2],
        path=_unescaped(before[4]),
        type=after[0],
        source=_unescaped(after[1]),
    )


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """Return the mount that an absolute path without links lies on; None when none covers it."""
    best: Mount | None = None
    for mount in mounts:
        prefix = mount.path.rstrip("/")
        # The later of two mounts on one directory hides the earlier.
        if (path == mount.path or path.startswith(f"{prefix}/")) and (
            best is None or len(mount.path) >= len(best.path)
        ):
            best = mount
    return best
