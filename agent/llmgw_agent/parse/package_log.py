"""What `pip install` and `uv pip install` print when an install fails: the cause, in words."""

import re

from llmgw.model.record import Record

UNREACHABLE = "unreachable"
NO_WHEEL = "no_wheel"
WRONG_HASH = "wrong_hash"
DISK_FULL = "disk_full"
OTHER = "other"

_PIP_HASH = re.compile(
    r"^[ \t]+(?P<name>\S+==\S+)(?: from .*)?:\n\s+Expected sha256 (?P<wanted>[0-9a-f]{64})\n"
    r"\s+Got\s+(?P<got>[0-9a-f]{64})",
    re.MULTILINE,
)
_UV_HASH = re.compile(
    r"Hash mismatch for `(?P<name>[^`]+)`\s+Expected:\s+sha256:(?P<wanted>[0-9a-f]{64})"
    r"\s+Computed:\s+sha256:(?P<got>[0-9a-f]{64})"
)
_BROKEN = re.compile(r"connection broken by|Failed to fetch|error sending request|Read timed out")
_REASON = re.compile(
    r"\[Errno -?\d+\] (?P<pip>[^)\"']+)|(?P<read>Read timed out)|certificate (?P<tls>verify failed)"
    r"|cause: (?P<uv>[^\n]+)\Z"
)
_PIP_NONE = re.compile(r"No matching distribution found for (\S+)")
_PIP_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")
_UV_NONE = re.compile(r"Because (\S+) (?:has no wheels|was not found in the package registry)")
_UV_VERSION = re.compile(r"there is no version of (\S+) and")
_USERINFO = re.compile(r"//[^/@\s]+@")
_ERROR_LINE = re.compile(r"^(?:ERROR|error|[ \t]*cause):\s*(.+)$", re.MULTILINE)


class Failure(Record, frozen=True, kw_only=True):
    """Why an install failed. `kind` is one of this module's words."""

    kind: str
    words: str


def read_failure(text: str, platform: str) -> Failure:
    """Return why an install failed.

    Args:
        text: everything that pip or uv printed.
        platform: this machine in words, for a wheel that does not run on it.
    """
    for read in (_hash, _disk, _unreachable):
        failure = read(text)
        if failure is not None:
            return failure
    return _none(text, platform) or Failure(kind=OTHER, words=_last_error(text))


def _hash(text: str) -> Failure | None:
    match = _PIP_HASH.search(text) or _UV_HASH.search(text)
    if match is None:
        return None
    return Failure(
        kind=WRONG_HASH,
        words=f"{match['name']} has sha256 {match['got']}, wanted is {match['wanted']}",
    )


def _disk(text: str) -> Failure | None:
    if "No space left on device" in text:
        return Failure(kind=DISK_FULL, words="the disk is full")
    return None


def _unreachable(text: str) -> Failure | None:
    if _BROKEN.search(text) is None:
        return None
    found = _REASON.search(text.rstrip())
    reason = next((g for g in found.groups() if g), None) if found is not None else None
    return Failure(
        kind=UNREACHABLE,
        words="no package index can be reached" + (f": {reason.strip()}" if reason else ""),
    )


def _none(text: str, platform: str) -> Failure | None:
    if (other := _UV_VERSION.search(text)) is not None:
        return Failure(kind=NO_WHEEL, words=f"the package index has no {other[1]}")
    match = _PIP_NONE.search(text) or _UV_NONE.search(text)
    if match is None:
        return None
    versions = _PIP_VERSIONS.search(text)
    if versions is not None and versions[1] not in ("", "none"):
        words = f"the package index has no {match[1]}, only {_shortened(versions[1])}"
        return Failure(kind=NO_WHEEL, words=words)
    return Failure(
        kind=NO_WHEEL,
        words=f"the package index has no wheel of {match[1]} for this platform ({platform})",
    )


def _shortened(versions: str) -> str:
    named = versions.split(", ")
    return ", ".join(named if len(named) <= 4 else ["…", *named[-3:]])


def _last_error(text: str) -> str:
    lines = _ERROR_LINE.findall(text) or [line for line in text.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else "it printed nothing"
    return _USERINFO.sub("//", last)[:300]
