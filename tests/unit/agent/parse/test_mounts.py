"""Which filesystem a path lies on, and whether others share it."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.mounts import SHARED_TYPES, mount_of, read_mountinfo

TABLE = """\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:26 / /srv/models rw - nfs4 filer:/models rw,vers=4.2
31 30 0:27 / /srv/models/lustre rw master:5 propagate_from:2 - lustre mgs@tcp:/fs rw
32 22 0:28 / /mnt/with\\040blank rw - beegfs beegfs_nodev rw
33 22 254:1 /var/x /srv/bind rw - ext4 /dev/vda1 rw
"""


def test_the_deepest_mount_that_covers_a_path_is_its_own():
    mounts = read_mountinfo(TABLE)
    found = {
        path: mount_of(path, mounts).path
        for path in ("/", "/etc", "/srv", "/srv/models", "/srv/models/a", "/srv/models/lustre/b")
    }
    assert found == {
        "/": "/",
        "/etc": "/",
        "/srv": "/",
        "/srv/models": "/srv/models",
        "/srv/models/a": "/srv/models",
        "/srv/models/lustre/b": "/srv/models/lustre",
    }


def test_a_name_that_only_begins_alike_is_another_directory():
    mount = mount_of("/srv/models-old", read_mountinfo(TABLE))
    assert mount is not None
    assert mount.path == "/"


def test_blanks_in_a_mount_are_read():
    mount = mount_of("/mnt/with blank/x", read_mountinfo(TABLE))
    assert mount is not None
    assert (mount.type, mount.device) == ("beegfs", "0:28")


def test_the_later_of_two_mounts_on_one_directory_hides_the_earlier():
    mounts = read_mountinfo(TABLE + "40 22 0:40 / /srv/models rw - tmpfs none rw\n")
    mount = mount_of("/srv/models/a", mounts)
    assert mount is not None
    assert mount.type == "tmpfs"


def test_network_types_are_shared_and_unknown_ones_are_local():
    assert {"nfs", "nfs4", "lustre", "beegfs", "gpfs", "ceph", "cifs", "smb3"} <= SHARED_TYPES
    assert not {"ext4", "xfs", "overlay", "tmpfs", "some-new-type"} & SHARED_TYPES


def test_no_mounts_is_no_answer():
    assert mount_of("/", ()) is None


@pytest.mark.parametrize("line", ["garbage", "1 2 3 4 5 - ext4 x", "1 2 3 4 / rw - ext4"])
def test_a_line_of_another_form_is_unreadable(line):
    with pytest.raises(Unreadable, match="mountinfo"):
        read_mountinfo(line)


@given(st.text(), st.text())
def test_no_table_raises_anything_but_unreadable(table, path):
    for text in (table, TABLE + table):
        with suppress(Unreadable):
            mount_of(path, read_mountinfo(text))
