"""What an engine prints for `--version`: its version."""

import re

_VERSION = re.compile(
    r"version:?\s{1,8}v?([0-9][^\s,()]{0,99})|^v?([0-9]{1,9}\.[0-9][^\s,()]{0,99})", re.MULTILINE
)


def version_of(said: str) -> str | None:
    """Return the version that stands behind the word, or at a line's beginning; None: none does."""
    found = _VERSION.search(said)
    return None if found is None else found[1] or found[2]
