"""ldd: which shared libraries a program would not find."""

import re

_VERSION = re.compile(r"version [`']([^']+)' not found")


def missing_libraries(text: str) -> tuple[str, ...]:
    """Return the names that `ldd` did not find, versions of glibc among them."""
    missing: dict[str, None] = {}
    for line in text.splitlines():
        version = _VERSION.search(line)
        if version is not None:
            missing[version[1]] = None
        elif line.rstrip().endswith("=> not found"):
            missing[line.partition("=>")[0].strip()] = None
    return tuple(missing)
