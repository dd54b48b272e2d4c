"""Reading and replacing one small file, asked of a helper process.

A state directory may lie on a filesystem that does not answer; what runs beside heartbeats must not
wait for it.
"""

from llmgw.model.record import Record

HELPER = "llmgw_agent.host.small_file_side"
"""The module of the helper process that answers both requests."""

MOST = 4 << 20
"""Bytes of a small file."""


class ReadFile(Record, frozen=True, kw_only=True, tag_field="kind", tag="read"):
    """Read a file: NotFound where there is none, Unreadable where it is larger than `MOST`."""

    path: str


class FileText(Record, frozen=True, kw_only=True):
    """What is in it; bytes that are no UTF-8 are replaced."""

    text: str


class WriteFile(Record, frozen=True, kw_only=True, tag_field="kind", tag="write"):
    """Replace a file in one step, readable by its owner alone."""

    path: str
    text: str


class Written(Record, frozen=True, kw_only=True):
    """It was."""


FileRequest = ReadFile | WriteFile
