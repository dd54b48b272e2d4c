"""Directories of small files, as sysfs has them: a mapping from path to content.

As text such a tree is one line a file: its path below some root, a tab, its content.
"""

from collections.abc import Mapping

from llmgw.base.errors import Unreadable


def read_tree(text: str) -> Mapping[str, str]:
    """Return the files of a listing by path; a line without a tab costs itself.

    Raises:
        Unreadable: there is text, and no line of it is a file.
    """
    files: dict[str, str] = {}
    for line in text.splitlines():
        path, tab, content = line.partition("\t")
        if tab and path:
            files[path.removeprefix("./")] = content.strip()
    if not files and text.strip():
        raise Unreadable(f"{text.strip().splitlines()[0][:80]!r} is no path, tab and content")
    return files


def branches(files: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
    """Return what lies below each directory at the top, its paths taken from there."""
    found: dict[str, dict[str, str]] = {}
    for path, content in files.items():
        name, slash, rest = path.partition("/")
        if slash:
            found.setdefault(name, {})[rest] = content
    return found
