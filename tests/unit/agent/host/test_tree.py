"""Reading sysfs: only what is wanted, and a file that can't be read costs itself."""

import errno
from pathlib import Path

from llmgw_agent.host.tree import LARGEST, read_live
from tests.fakes.machine import MemoryFiles

ROOT = Path("/sys/class/hwmon")


class SysFiles(MemoryFiles):
    """Files of which some give an error when they are read, as those of sysfs do."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: dict[Path, int] = {}
        self.listed: list[Path] = []

    def read_part(self, path: Path, offset: int, most: int) -> bytes:
        if path in self.errors:
            raise OSError(self.errors[path], "refused", str(path))
        return super().read_part(path, offset, most)

    def names(self, path: Path) -> tuple[str, ...]:
        self.listed.append(path)
        if path in self.errors:
            raise OSError(self.errors[path], "refused", str(path))
        return super().names(path)


def sysfs(**contents: bytes) -> SysFiles:
    files = SysFiles()
    for path, content in contents.items():
        files.content[ROOT / path] = content
    return files


def test_only_what_is_wanted_is_read_and_listed():
    files = sysfs(**{"hwmon0/name": b"coretemp\n", "hwmon0/power/control": b"auto\n"})
    assert read_live(files, ROOT, ("*/name",)) == {"hwmon0/name": "coretemp"}
    assert files.listed == [ROOT]


def test_patterns_match_part_by_part():
    contents = {
        "hwmon0/temp1_input": b"41000\n",
        "hwmon0/temp10_input": b"1\n",
        "b/fan1_input": b"",
    }
    files = sysfs(**contents)
    found = read_live(files, ROOT, ("hwmon?/temp*_input", "nowhere/name"))
    assert found == {"hwmon0/temp1_input": "41000", "hwmon0/temp10_input": "1"}


def test_a_file_that_the_kernel_refuses_costs_itself():
    files = sysfs(**{"a/x": b"1", "b/x": b"2", "c/x": b"3"})
    files.errors[ROOT / "a" / "x"] = errno.EINVAL
    files.errors[ROOT / "c" / "x"] = errno.EACCES
    assert read_live(files, ROOT, ("*/x",)) == {"b/x": "2"}


def test_a_directory_that_may_not_be_listed_costs_itself():
    files = sysfs(**{"a/x": b"1", "b/x": b"2"})
    files.errors[ROOT / "a"] = errno.EACCES
    assert read_live(files, ROOT, ("*/*",)) == {"b/x": "2"}


def test_what_is_no_text_is_left_out_and_what_is_long_is_cut():
    files = sysfs(**{"a/config": b"\x86\x80\x00\x01", "a/long": b"7" * 10_000})
    assert read_live(files, ROOT, ("a/config", "a/long")) == {"a/long": "7" * LARGEST}


def test_a_root_that_is_not_there_has_nothing():
    assert read_live(SysFiles(), ROOT, ("*/name", "name")) == {}
