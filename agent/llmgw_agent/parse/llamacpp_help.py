"""`llama-server --help` → the options that this build knows."""

import re

_INDENT_MOST = 4
_OPTION = re.compile(r"--?[A-Za-z][\w.-]*")
_NEXT = re.compile(r"(?: [^\s,]+)?,\s+(?=-)")
"""To the next name of the same option; Python's own help repeats what it takes: `-c N, --ctx N`."""


def read_options(text: str) -> frozenset[str] | None:
    """Return every option's every name; None when the text lists none.

    An option's line begins with its names, separated by commas, and goes on with what it takes and
    does; lines of description are further in.
    """
    found: set[str] = set()
    for line in text.splitlines():
        at = len(line) - len(line.lstrip(" "))
        if at > _INDENT_MOST:
            continue
        while match := _OPTION.match(line, at):
            found.add(match[0])
            comma = _NEXT.match(line, match.end())
            if comma is None:
                break
            at = comma.end()
    return frozenset(found) or None
