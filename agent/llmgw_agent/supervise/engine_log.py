"""An engine's output: the file that it appends to itself, and its last lines in memory.

The file and not a pipe, because the engine outlives the agent. It is bounded by cutting it to
nothing in place: the engine appends, so it goes on at the new end.
"""

import re
from pathlib import Path

from llmgw.base.errors import LlmgwError
from llmgw.base.log import LogRing, get
from llmgw.base.secrets import HIDDEN, Secret, redact
from llmgw.base.world import Files

log = get(__name__)

RING_LINES = 500
FILE_MOST = 8 << 20
"""Bytes after which the file is emptied."""

_PIECE = 256 << 10
_START_UP = 4 << 20
"""Bytes of the file's beginning that start-up output is looked for in."""
_LAST = 64 << 10
_LINE_MOST = 2000
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_KEY_END = re.compile(r"(api_keys?: )\*+\w+")
"""llama-server prints the end of its key."""


class EngineLog:
    """One engine's output.

    Args:
        files: the world's files.
        path: where the engine writes.
        key: the replica's key, hidden wherever it shows.
    """

    def __init__(self, files: Files, path: Path, key: Secret | None = None) -> None:
        self.path = path
        self.key = key
        self.ring = LogRing(RING_LINES)
        self._files = files
        self._offset = 0
        self._rest = b""
        self._complained = False

    def begin(self) -> None:
        """Empty the file for a new process; lines in memory stay."""
        self._files.empty(self.path)
        self._offset, self._rest = 0, b""

    def resume(self) -> None:
        """Go on where a former agent left: the file's last lines, then what comes."""
        size = self._files.size(self.path) or 0
        self._offset = max(0, size - _LAST)
        if self._offset:
            self._rest = b"..."
        self.poll()

    def note(self, words: str) -> None:
        """Add a line of llmgw's own."""
        self.ring.add(f"llmgw: {words}")

    def poll(self) -> None:
        """Read what came since the last time; empty the file when it has grown too long."""
        try:
            self._read()
        except (LlmgwError, OSError) as error:
            if not self._complained:
                log.warning("an engine's output can't be read", path=self.path, error=str(error))
            self._complained = True

    def finish(self) -> None:
        """Read to the end, a last line without its newline included."""
        self.poll()
        if self._rest:
            self.ring.add(self._clean(self._rest))
            self._rest = b""

    def start_up(self) -> tuple[str, ...]:
        """Return the lines from the process's beginning on, as far as the file has them."""
        try:
            text = self._files.read_part(self.path, 0, _START_UP)
        except (LlmgwError, OSError):
            return ()
        return tuple(text.decode(errors="replace").splitlines())

    def last(self, lines: int) -> tuple[str, ...]:
        """Return the last lines that the engine itself wrote, from memory."""
        own = [line for line in self.ring.tail(RING_LINES) if not line.startswith("llmgw: ")]
        return tuple(own[-lines:])

    def _read(self) -> None:
        size = self._files.size(self.path)
        if size is None:
            return
        if size < self._offset:
            self._offset, self._rest = 0, b""
        while piece := self._files.read_part(self.path, self._offset, _PIECE):
            self._offset += len(piece)
            *lines, self._rest = (self._rest + piece).split(b"\n")
            for line in lines:
                self.ring.add(self._clean(line))
            # A line that never ends must not fill the memory.
            self._rest = self._rest[-_PIECE:]
        if self._offset >= FILE_MOST:
            self._files.empty(self.path)
            self._offset = 0
            self.note(f"its log file had {FILE_MOST >> 20} MiB and was emptied")

    def _clean(self, line: bytes) -> str:
        """Return a line as it may be shown: no terminal escapes, no secrets, a bounded length."""
        text = line[: 2 * _LINE_MOST].decode(errors="replace").rstrip("\r")
        text = _CONTROLS.sub("", _ESCAPES.sub("", text).replace("\t", "    "))
        if self.key is not None:
            text = text.replace(self.key.reveal(), HIDDEN)
        text = _KEY_END.sub(rf"\1{HIDDEN}", redact(text))
        return text if len(text) <= _LINE_MOST else f"{text[:_LINE_MOST]} ..."
