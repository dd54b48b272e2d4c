"""Every reader on every recording of its tool, garbled: an `Unreadable`, or fields left out."""

import pytest

from tests.fuzz.check import complaint
from tests.fuzz.corpus import FIXTURES, by_name, recordings
from tests.fuzz.kept import KEPT

EXAMPLES = 200


@pytest.mark.parametrize("tool", by_name())
def test_nothing_but_absent_fields_and_unreadable_comes_of_garbled_text(tool: str):
    files = list(recordings(tool))
    for seed in range(EXAMPLES):
        file = files[seed % len(files)]
        words = complaint(tool, file, seed)
        assert words is None, f"python -m tests.fuzz --seed {seed} --file {file} {tool}: {words}"


@pytest.mark.parametrize(("tool", "file", "seed"), KEPT)
def test_what_failed_once_does_not_fail_again(tool: str, file: str, seed: int):
    assert complaint(tool, file, seed) is None


def test_every_recording_is_read_or_says_who_will_read_it():
    later = {
        line.partition(" ")[0]
        for line in (FIXTURES / "later.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    read = {file for tool in by_name() for file in recordings(tool)}
    known = read | later
    left = [
        str(path.relative_to(FIXTURES))
        for path in sorted(FIXTURES.rglob("*"))
        if path.is_file()
        and path.name not in {"README.md", "later.txt"}
        and path.name not in known
        and str(path.relative_to(FIXTURES)) not in known
        and f"{path.parent.name}/" not in known
    ]
    assert left == []


def test_every_reader_has_recordings():
    assert [tool for tool in by_name() if not recordings(tool)] == []
