"""What `stat -f` says of filesystems."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.base.errors import Unreadable
from llmgw_agent.parse.statfs import is_shared, read_stat_f

STATFS = Path(__file__).parents[3] / "fixtures" / "statfs"
LONG = (STATFS / "stat-f.txt").read_text()
TYPES = (STATFS / "types.txt").read_text()


def test_space_is_counted_in_fundamental_blocks():
    found = {one.path: one for one in read_stat_f(LONG)}
    assert list(found) == ["/", "/proc", "/sys", "/dev/shm", "/tmp", "/run"]
    root = found["/"]
    #     ID: a239e3cf949c8032 Namelen: 255     Type: ext2/ext3
    # Block size: 4096       Fundamental block size: 4096
    # Blocks: Total: 66053021   Free: 58077936   Available: 18622643
    assert (root.type, root.shared) == ("ext2/ext3", False)
    assert root.total_bytes == 66053021 * 4096
    assert root.free_bytes == 58077936 * 4096
    assert root.available_bytes == 18622643 * 4096
    # File: "/dev/shm" … Type: tmpfs … Blocks: Total: 6171023    Free: 6171023    Available: 6171023
    assert found["/dev/shm"].type == "tmpfs"
    assert found["/dev/shm"].total_bytes == 6171023 * 4096
    # File: "/proc" … Type: proc … Blocks: Total: 0          Free: 0          Available: 0
    assert (found["/proc"].type, found["/proc"].total_bytes) == ("proc", 0)
    # File: "/sys" … Type: sysfs
    assert found["/sys"].type == "sysfs"
    # File: "/tmp", File: "/run" … Blocks: Total: 66053021   Free: 58077935   Available: 18622642
    for path in ("/tmp", "/run"):
        assert found[path].available_bytes == 18622642 * 4096
        assert found[path].free_bytes == 58077935 * 4096


def test_types_come_with_their_magic_numbers():
    found = [(one.path, one.type, one.magic, one.shared) for one in read_stat_f(TYPES)]
    # / ext2/ext3 0xef53      /proc proc 0x9fa0      /sys sysfs 0x62656572
    # /dev/shm tmpfs 0x1021994      /sys/fs/cgroup tmpfs 0x1021994      /dev tmpfs 0x1021994
    # /run ext2/ext3 0xef53
    assert found == [
        ("/", "ext2/ext3", 0xEF53, False),
        ("/proc", "proc", 0x9FA0, False),
        ("/sys", "sysfs", 0x62656572, False),
        ("/dev/shm", "tmpfs", 0x1021994, False),
        ("/sys/fs/cgroup", "tmpfs", 0x1021994, False),
        ("/dev", "tmpfs", 0x1021994, False),
        ("/run", "ext2/ext3", 0xEF53, False),
    ]


@pytest.mark.parametrize(
    ("magic", "shared"),
    [
        *((number, True) for number in (0x6969, 0xFE534D42, 0xFF534D42, 0xBD00BD0, 0xC36400)),
        *((number, True) for number in (0x19830326, 0x47504653)),
        *((number, False) for number in (0xEF53, 0x1021997, 0x794C7630, 0x1021994)),
    ],
)
def test_a_network_filesystem_is_known_by_its_magic_number(magic, shared):
    (found,) = read_stat_f(f"/srv/models some 0x{magic:x}\n")
    assert (found.magic, found.shared) == (magic, shared)


def test_a_type_that_this_stat_does_not_know_is_known_by_its_number():
    text = LONG.replace("Type: tmpfs", "Type: UNKNOWN (0x47504653)")
    found = {one.path: one for one in read_stat_f(text)}["/dev/shm"]
    assert (found.type, found.magic, found.shared) == ("gpfs", 0x47504653, True)


def test_of_fuse_it_is_not_known_what_is_behind_it():
    assert is_shared("fuseblk", 0x65735546) is None
    assert is_shared(None, None) is None


def test_a_path_with_blanks_is_whole_and_numbers_that_are_garbled_are_none():
    text = '  File: "/mnt/my models"\n Namelen: 255 Type: nfs\nBlocks: Total: x\n'
    (found,) = read_stat_f(text)
    assert (found.path, found.type, found.shared) == ("/mnt/my models", "nfs", True)
    assert (found.total_bytes, found.free_bytes, found.available_bytes) == (None, None, None)


def test_more_than_any_filesystem_can_hold_is_none():
    text = LONG.replace("Total: 66053021 ", "Total: 66053021660530216605 ", 1)
    root = read_stat_f(text)[0]
    assert (root.total_bytes, root.free_bytes) == (None, 58077936 * 4096)


def test_a_message_of_stat_is_unreadable():
    with pytest.raises(Unreadable, match="cannot read file system"):
        read_stat_f("stat: cannot read file system information for '/x': No such file\n")


@given(at=st.integers(0, 1400), noise=st.text(max_size=30))
def test_no_text_makes_the_reader_raise_anything_but_unreadable(at, noise):
    for whole in (LONG, TYPES):
        with suppress(Unreadable):
            read_stat_f(whole[:at] + noise + whole[at + 9 :])
