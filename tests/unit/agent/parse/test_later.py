"""The list of recorded outputs that later readers bring."""

from pathlib import Path

FIXTURES = Path(__file__).parents[3] / "fixtures"
AGENT = Path(__file__).parents[4] / "agent" / "llmgw_agent"


def listed(when: str) -> list[tuple[str, str]]:
    """Return file or folder, and the rest, of each line that says `read` or `later`."""
    lines = (FIXTURES / "later.txt").read_text().splitlines()
    rows = [line.split(" ", 2) for line in lines if not line.startswith("#")]
    assert all(row[1] in {"read:", "later:"} for row in rows)
    return [(row[0], row[2]) for row in rows if row[1] == f"{when}:"]


def test_what_is_said_to_be_read_is_here_with_what_reads_it():
    for file, reader in listed("read"):
        assert (FIXTURES / file).exists(), file
        named = [word.rstrip(":,;") for word in reader.split() if ".py" in word]
        assert named, file
        for name in named:
            whole = name.startswith(("tests/", "llmgw/"))
            place = FIXTURES.parents[1] if whole else AGENT
            assert (place / name).is_file(), f"{file}: {name}"


def test_no_folder_of_a_later_reader_has_one_already():
    later = {file.partition("/")[0] for file, _ in listed("later")}
    some_read = {file.partition("/")[0] for file, _ in listed("read")}
    for folder in later - some_read:
        assert not (FIXTURES / folder).exists(), folder
